"""Whether the view is true: what is found is counted and told, and looking goes on."""

import asyncio
import logging
from typing import cast

import pytest

from bayplan.client.errors import Unreachable
from bayplan.ops.metrics import Metrics
from bayplan.runtimes.verifying import Verifying
from bayplan.state.live import LiveCluster
from bayplan.state.verify import Verification

FOUND = Verification(
    nodes=3,
    pods=5,
    drift=["node a: the view has it, the cluster has not"],
    unaccounted=["shop/strayed", "shop/other"],
    overcommitted=["node b, gpu 0", "node b, gpu 1", "node c, gpu 0"],
    seconds=0.1,
)
TRUE = Verification(nodes=3, pods=5, drift=[], unaccounted=[], overcommitted=[], seconds=0.1)


class Live:
    """A cluster of which comparisons find what they are told to find, one after another."""

    def __init__(self, *found: Verification | Exception) -> None:
        self._found = iter(found)
        self.over = asyncio.Event()
        self.listed_again = 0

    @property
    def view(self) -> "Live":
        """As a live cluster has one."""
        return self

    def list_again(self) -> None:
        """The view is to be made anew."""
        self.listed_again += 1

    async def verify(self) -> Verification:
        """The next one; nothing comes after the last."""
        found = next(self._found, None)
        if found is None:
            self.over.set()
            await asyncio.Event().wait()
        if isinstance(found, Exception):
            raise found
        assert found is not None
        return found

    async def unaccounted(self) -> list[str]:
        """Who is known before the first comparison."""
        return ["shop/strayed"]


def verifying(live: Live, metrics: Metrics) -> Verifying:
    return Verifying(cast("LiveCluster", live), metrics, every_seconds=0)


def counted(metrics: Metrics) -> list[float | None]:
    names = ("bayplan_view_drift", "bayplan_unaccounted_pods", "bayplan_overcommitted_devices")
    return [metrics.registry.get_sample_value(name) for name in names]


async def test_what_is_found_is_counted_and_told(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Metrics(version="test")

    assert await verifying(Live(FOUND), metrics).verify() is FOUND

    assert counted(metrics) == [1, 2, 3]
    assert "the view is wrong: node a: the view has it, the cluster has not" in caplog.text
    assert "more was given than there is: node b, gpu 0" in caplog.text
    assert "pod shop/strayed holds a managed resource and was bound by somebody else" in caplog.text


async def test_what_is_not_there_any_more_does_not_count_any_more() -> None:
    metrics = Metrics(version="test")
    looking = verifying(Live(FOUND, TRUE), metrics)

    await looking.verify()
    await looking.verify()

    assert counted(metrics) == [0, 0, 0]


async def test_it_looks_again_and_again_also_when_the_server_cannot_be_reached(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    metrics, live = Metrics(version="test"), Live(Unreachable("listing pods: no answer in 30 s"), FOUND)

    task = asyncio.create_task(verifying(live, metrics).now_and_then())
    try:
        async with asyncio.timeout(30):
            await live.over.wait()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert "pod shop/strayed holds a managed resource" in caplog.text.splitlines()[0]
    assert "the view could not be verified: listing pods: no answer in 30 s" in caplog.text
    assert counted(metrics) == [1, 2, 3]


async def test_a_view_that_is_found_wrong_is_made_anew() -> None:
    live = Live(TRUE, FOUND, TRUE)
    looking = asyncio.create_task(verifying(live, Metrics(version="test")).now_and_then())
    await asyncio.wait_for(live.over.wait(), 5)
    looking.cancel()

    assert live.listed_again == 1


async def test_who_only_asks_changes_nothing() -> None:
    live = Live(FOUND)

    await verifying(live, Metrics(version="test")).verify()

    assert live.listed_again == 0
