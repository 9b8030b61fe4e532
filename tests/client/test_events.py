"""Events about pods: what goes to the API server; that it accepts them is in e2e."""

import re
from pathlib import Path
from typing import Any

import pytest

from bayplan.client.errors import ApiError
from bayplan.client.events import record_event
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
        await record_event(client, **{**event, **changes})
    return api.bodies[0]


async def test_an_event_says_about_whom_by_whom_and_when(tmp_path: Path) -> None:
    api = Script([201])
    body = await record(tmp_path, api)

    assert api.asked[0].path == "/apis/events.k8s.io/v1/namespaces/shop/events"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", body.pop("eventTime"))
    assert body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"generateName": "web-1-", "namespace": "shop"},
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
        pytest.param("x" * 1025, "x" * 1021 + "...", id="one too many"),
        pytest.param("é" * 1024, "é" * 510 + "...", id="letters of two bytes are not torn"),
    ],
)
async def test_a_long_message_is_cut_where_the_api_server_would_refuse_it(
    tmp_path: Path, message: str, note: str
) -> None:
    assert (await record(tmp_path, Script([201]), message=message))["note"] == note


@pytest.mark.parametrize(
    ("pod", "start"),
    [
        pytest.param("a" * 253, "a" * 57 + "-", id="a long name"),
        pytest.param("a" * 56 + ".b", "a" * 56 + "-", id="cut at a dot"),
    ],
)
async def test_the_name_of_an_event_starts_with_that_of_the_pod(tmp_path: Path, pod: str, start: str) -> None:
    body = await record(tmp_path, Script([201]), regarding=(pod, "uid-1"))

    assert body["metadata"]["generateName"] == start


async def test_an_event_that_is_refused_is_not_sent_again(tmp_path: Path) -> None:
    api = Script([503])
    with pytest.raises(ApiError, match="503"):
        await record(tmp_path, api)

    assert len(api.asked) == 1
