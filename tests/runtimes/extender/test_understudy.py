"""A candidate's sources: those that the live configuration asks are asked once, the others for it alone."""

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.client.serving import serving
from tests.runtimes.extender.caller import ask, names_request
from tests.runtimes.extender.test_shadow import NODES, served, until
from tests.runtimes.extender.test_sources import Service

READS = """
import bayplan
LOAD = bayplan.Source("load")

@bayplan.filter
def calm(pod, nodes):
    return bayplan.Reason("busy").where(nodes[LOAD] > 0.5)
"""
LATCHES = """
import bayplan
BUSY = bayplan.Source("load").latched(above=0.8, below=0.5)

@bayplan.filter
def calm(pod, nodes):
    return bayplan.Reason("busy").where(nodes[BUSY])
"""


class Counting:
    """Says how busy nodes are, and counts how often it is asked."""

    def __init__(self, **values: float) -> None:
        self.values = values
        self.asked = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked += 1
        return web.json_response(self.values)


def source(url: str, **more: Any) -> dict[str, Any]:
    return {"name": "load", "http": {"url": url}, "interval": "1h", "maxAge": "2h", **more}


async def test_a_source_of_both_is_polled_once_and_tells_both_the_same(tmp_path: Path) -> None:
    service = Counting(a=0.1, b=0.9, c=0.9)
    async with serving(service.handle) as url:
        both = [source(url)]
        async with served(tmp_path, candidate=READS, sources=both, own=both) as server:
            await until(server, lambda _: server.app.generation.sources.polled["load"].answered)
            await ask(server, "filter", names_request(NODES))
            report = await until(server, lambda r: r.compared == 1)

    assert service.asked == 1
    assert report.sources == {}
    # The live policy refuses c as well.
    assert [each.node for each in report.examples[0].difference.nodes] == ["b"]


@pytest.mark.parametrize(
    ("live", "candidate"),
    [
        pytest.param({"maxAge": "3h"}, READS, id="with other settings"),
        pytest.param(None, READS, id="of the candidate alone"),
        pytest.param({}, LATCHES, id="with a switch that the live policies do not have"),
    ],
)
async def test_a_source_of_its_own_is_polled_for_it(
    tmp_path: Path, live: dict[str, Any] | None, candidate: str
) -> None:
    service = Counting(a=0.1, b=0.9, c=0.9)
    async with serving(service.handle) as url:
        ours = [] if live is None else [source(url, **live)]
        async with served(tmp_path, candidate=candidate, sources=ours, own=[source(url)]) as server:
            await until(server, lambda r: r.sources == {"load": ""})
            await ask(server, "filter", names_request(NODES))
            report = await until(server, lambda r: r.compared == 1)

    assert service.asked == 1 + len(ours)
    assert [each.node for each in report.examples[0].difference.nodes] == ["b"]


async def test_the_same_name_with_another_address_is_another_source(tmp_path: Path) -> None:
    theirs, ours = Counting(a=0.9, b=0.1, c=0.1), Counting(a=0.1, b=0.1, c=0.1)
    async with (
        serving(theirs.handle) as candidates,
        serving(ours.handle) as live,
        served(tmp_path, candidate=READS, sources=[source(live)], own=[source(candidates)]) as server,
    ):
        await until(server, lambda r: r.sources == {"load": ""})
        await ask(server, "filter", names_request(NODES))
        report = await until(server, lambda r: r.compared == 1)

    assert (theirs.asked, ours.asked) == (1, 1)
    assert [each.node for each in report.examples[0].difference.nodes] == ["a", "c"]


async def test_who_is_asked_about_a_pod_is_asked_for_it_where_no_live_policy_wanted_to_know(
    tmp_path: Path,
) -> None:
    service = Service({"a": 0.9, "b": 0.1, "c": 0.1})
    async with serving(service.handle) as url:
        both = [{"name": "load", "per": "pod", "http": {"url": url, "timeout": "4s"}}]
        async with served(tmp_path, candidate=READS, sources=both, own=both) as server:
            await ask(server, "filter", names_request(NODES))
            report = await until(server, lambda r: r.compared == 1)

    assert len(service.asked) == 1
    assert [each.node for each in report.examples[0].difference.nodes] == ["a", "c"]


async def test_who_is_asked_about_a_pod_is_asked_once_where_both_want_to_know(tmp_path: Path) -> None:
    service = Service({"a": 0.9, "b": 0.1, "c": 0.1})
    async with serving(service.handle) as url:
        both = [{"name": "load", "per": "pod", "http": {"url": url, "timeout": "4s"}}]
        async with served(
            tmp_path, candidate=READS, sources=both, own=both, live={"use": "next.py"}
        ) as server:
            answer = (await ask(server, "filter", names_request(NODES))).json
            report = await until(server, lambda r: r.compared == 1)

    assert answer["NodeNames"] == ["b", "c"]
    assert (len(service.asked), report.disagreed) == (1, 0)
