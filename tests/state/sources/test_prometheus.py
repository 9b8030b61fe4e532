"""Answers of Prometheus: which series is which node, and what cannot be used."""

from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp import web

from bayplan.snapshot.sources import Match
from bayplan.state.sources.http import SourceError, SourceHttp
from bayplan.state.sources.prometheus import Prometheus
from tests.client.serving import Handler, serving


def vector(*series: tuple[Mapping[str, str], str]) -> dict[str, Any]:
    """An answer as the server gives it."""
    result = [{"metric": dict(labels), "value": [1700000000.5, value]} for labels, value in series]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


async def fetched(
    answer: Any,
    *,
    queries: Mapping[str, str] | None = None,
    label: str = "instance",
    match: Match = "internalIP",
) -> Any:
    """What comes of such an answer to every query."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        assert request.path == "/api/v1/query"
        return web.json_response(answer[request.query["query"]] if queries else answer)

    return await _ask(handle, dict(queries or {"": "up"}), label, match)


async def _ask(handler: Handler, queries: dict[str, str], label: str, match: Match) -> Any:
    async with serving(handler) as url:
        http = SourceHttp()
        try:
            return await Prometheus(url + "/", queries, label, match).fetch(http)
        finally:
            await http.close()


@pytest.mark.parametrize(
    ("instance", "node"),
    [
        pytest.param("10.0.0.1:9100", "10.0.0.1", id="with a port"),
        pytest.param("10.0.0.1", "10.0.0.1", id="without a port"),
        pytest.param("[fd00::1]:9100", "fd00::1", id="IPv6 with a port"),
        pytest.param("fd00::1", "fd00::1", id="IPv6 without a port"),
    ],
)
async def test_the_port_of_an_address_does_not_matter(instance: str, node: str) -> None:
    assert await fetched(vector(({"instance": instance}, "0.5"))) == {node: {"": 0.5}}


async def test_a_name_is_taken_as_it_is() -> None:
    answer = vector(({"node": "rack:7", "job": "x"}, "3"))

    assert await fetched(answer, label="node", match="name") == {"rack:7": {"": 3.0}}


async def test_each_query_is_a_column() -> None:
    answer = {
        "c": vector(({"instance": "a"}, "1"), ({"instance": "b"}, "2")),
        "m": vector(({"instance": "a"}, "3")),
    }

    found = await fetched(answer, queries={"cpu": "c", "memory": "m"}, match="name")

    assert found == {"a": {"cpu": 1.0, "memory": 3.0}, "b": {"cpu": 2.0}}


async def test_nothing_is_nothing() -> None:
    assert await fetched(vector()) == {}


async def test_what_prometheus_writes_for_no_number_is_no_number() -> None:
    from bayplan.snapshot.bynode import by_field, numbers

    found = await fetched(vector(({"instance": "a"}, "NaN"), ({"instance": "b"}, "+Inf")))

    assert numbers(by_field(found)[""]) == {}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param(
            vector(({"instance": "a:1"}, "1"), ({"instance": "a:2"}, "2")),
            r"two series for a; make it one, as with `max by \(instance\)",
            id="two series for a node",
        ),
        pytest.param(
            vector(({"pod": "x", "job": "y"}, "1")), "no label 'instance'; there are: job, pod", id="no label"
        ),
        pytest.param(
            {"status": "success", "data": {"resultType": "scalar", "result": [1, "1"]}},
            "gives a scalar; want a vector",
            id="a scalar",
        ),
        pytest.param(
            {"status": "error", "errorType": "bad_data", "error": "parse error"}, "parse error", id="an error"
        ),
        pytest.param([1], "not an answer of Prometheus", id="something else"),
    ],
)
async def test_what_cannot_be_used_is_said(answer: Any, said: str) -> None:
    with pytest.raises(SourceError, match=said):
        await fetched(answer)


async def test_the_text_of_a_refused_query_is_shown() -> None:
    """Prometheus answers a query that it cannot read with status 400, and says why."""

    async def refuse(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"status": "error", "error": "unexpected end of input"}, status=400)

    with pytest.raises(SourceError, match=r"status 400: .*unexpected end of input"):
        await _ask(refuse, {"": "sum("}, "instance", "name")
