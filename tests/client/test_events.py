"""Events about pods: what goes to the API server; that it accepts them is in e2e."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bayplan.client.errors import ApiError
from bayplan.client.events import make_event, record_event, record_series
from tests.client.serving import Script, client_of, serving, write_kubeconfig


async def record(folder: Path, api: Script, **changes: Any) -> Any:
    """The body of the one request."""
    event: dict[str, Any] = {
        "namespace": "shop",
        "regarding": ("web-1", "uid-1"),
        "reason": "Scheduled",
        "message": "assigned to n1",
        "action": "Binding",
        "component": "bayplan.dev/scheduler",
        "instance": "bayplan-0",
    }
    async with (
        serving(api.handle) as server,
        client_of(write_kubeconfig(folder, cluster={"server": server})) as client,
    ):
        await record_event(client, make_event(**{**event, **changes}))
    return api.bodies[0]


async def test_an_event_says_about_whom_by_whom_and_when(tmp_path: Path) -> None:
    api = Script([201])
    body = await record(tmp_path, api)

    assert api.asked[0].path == "/apis/events.k8s.io/v1/namespaces/shop/events"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", body.pop("eventTime"))
    assert re.fullmatch(r"web-1\.[0-9a-f]{16}", body["metadata"].pop("name"))
    assert body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "shop"},
        "type": "Normal",
        "reason": "Scheduled",
        "action": "Binding",
        "note": "assigned to n1",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "shop",
            "name": "web-1",
            "uid": "uid-1",
        },
        "reportingController": "bayplan.dev/scheduler",
        "reportingInstance": "bayplan-0",
    }


async def test_a_warning_is_one(tmp_path: Path) -> None:
    assert (await record(tmp_path, Script([201]), kind="Warning"))["type"] == "Warning"


@pytest.mark.parametrize(
    ("message", "note"),
    [
        pytest.param("x" * 1024, "x" * 1024, id="just short enough"),
        pytest.param("x" * 1025, "x" * 1020 + " ...", id="one too many"),
        pytest.param("é" * 1024, "é" * 510 + " ...", id="letters of two bytes are not torn"),
    ],
)
async def test_a_long_message_is_cut_where_the_api_server_would_refuse_it(
    tmp_path: Path, message: str, note: str
) -> None:
    assert (await record(tmp_path, Script([201]), message=message))["note"] == note


@pytest.mark.parametrize(
    ("pod", "start"),
    [
        pytest.param("a" * 253, "a" * 236 + ".", id="a long name"),
        pytest.param("a" * 235 + ".b", "a" * 235 + ".", id="cut at a dot"),
    ],
)
async def test_the_name_of_an_event_starts_with_that_of_the_pod(tmp_path: Path, pod: str, start: str) -> None:
    body = await record(tmp_path, Script([201]), regarding=(pod, "uid-1"))

    name = body["metadata"]["name"]
    assert name.startswith(start)
    assert len(name) <= 253
    assert ".." not in name


async def test_an_event_that_is_refused_is_not_sent_again(tmp_path: Path) -> None:
    api = Script([503])
    with pytest.raises(ApiError, match="503"):
        await record(tmp_path, api)

    assert len(api.asked) == 1


SEEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SERIES = {"series": {"count": 3, "lastObservedTime": "2026-01-02T03:04:05.000000Z"}}


@pytest.mark.parametrize(
    ("known", "answers", "methods"),
    [
        pytest.param(True, [200], ["PATCH"], id="a known one is patched"),
        pytest.param(True, [404, 201], ["PATCH", "POST"], id="one that was lost is written anew"),
        pytest.param(False, [201], ["POST"], id="a new one is written with its count"),
        pytest.param(False, [409, 200], ["POST", "PATCH"], id="one that had landed is patched"),
    ],
)
async def test_a_series_is_counted_in_its_event(
    tmp_path: Path, known: bool, answers: list[int], methods: list[str]
) -> None:
    api = Script([*answers])
    await count(tmp_path, api, known=known)

    assert [request.method for request in api.asked] == methods
    for method, body in zip(methods, api.bodies, strict=True):
        assert body["series"] == SERIES["series"]
        assert ("note" in body) == (method == "POST")


@pytest.mark.parametrize("answers", [pytest.param([403], id="no right"), pytest.param([404, 409], id="gone")])
async def test_a_series_that_cannot_be_written_is_not_tried_for_ever(
    tmp_path: Path, answers: list[int]
) -> None:
    api = Script([*answers])
    with pytest.raises(ApiError):
        await count(tmp_path, api, known=True)

    assert len(api.asked) == len(answers)


async def count(folder: Path, api: Script, *, known: bool) -> None:
    """Write that an Event was seen three times."""
    event = make_event(
        namespace="shop",
        regarding=("web-1", "uid-1"),
        reason="FailedScheduling",
        message="full",
        action="Scheduling",
        component="ours",
        instance="ours-0",
    )
    async with (
        serving(api.handle) as server,
        client_of(write_kubeconfig(folder, cluster={"server": server})) as client,
    ):
        await record_series(client, event, count=3, observed=SEEN, known=known)
