"""The server's part when a Lease changes hands: calls that wait, and who is waited for at the end."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from bayplan.runtimes.extender.app import VERBS
from bayplan.runtimes.extender.serve import Server
from tests.runtimes.extender.caller import ask, look, names_request
from tests.runtimes.extender.obedient import make_options

NODES = ["node-0", "node-1"]


@pytest.mark.parametrize("verb", VERBS)
async def test_a_call_waits_while_calls_are_held(tmp_path: Path, verb: str) -> None:
    came, go_on = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        came.set()
        await go_on.wait()

    async with Server(make_options(tmp_path, view=NODES)).running() as server:
        server.app.hold = hold
        call = asyncio.create_task(ask(server, verb, names_request(NODES)))
        await asyncio.wait_for(came.wait(), 10)
        assert (await look(server, "/livez")).status == 200, "probes are answered meanwhile"
        assert server.app.in_flight == 1
        assert not call.done()

        go_on.set()

        assert (await asyncio.wait_for(call, 10)).status == 200


class _Live:
    """Stands in for a live cluster, and hears whether the Lease is to be handed over."""

    def __init__(self) -> None:
        self.asked = 0

    async def hand_over(self, *, quiet: Callable[[], bool], binding: Callable[[], int]) -> None:
        assert quiet()
        assert binding() == 0
        self.asked += 1


class _Binding:
    under_way = 0


@pytest.mark.parametrize(
    ("hand_over", "times"),
    [
        pytest.param(True, 1, id="SIGTERM"),
        pytest.param(False, 0, id="SIGINT, from a keyboard"),
    ],
)
async def test_at_the_end_the_lease_is_handed_over(tmp_path: Path, hand_over: bool, times: int) -> None:
    live = _Live()
    async with Server(make_options(tmp_path, view=NODES)).running() as server:
        server.live, server.binding = live, _Binding()  # type: ignore[assignment]
        server.stop(hand_over=hand_over)

    assert live.asked == times
    assert server.leaving.draining
