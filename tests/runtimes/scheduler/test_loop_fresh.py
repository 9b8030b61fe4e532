"""Who is judged is sent at once: nobody is sent on a judgement that is not true any more."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from bayplan import Profile
from bayplan.engine.guard import Attempt
from bayplan.kube.node import NodeSpec
from bayplan.ops.schedule_metrics import ScheduleMetrics
from bayplan.runtimes.needs import newest
from bayplan.runtimes.scheduler.judge import Judge
from bayplan.runtimes.scheduler.loop import Loop
from bayplan.snapshot.sources import NO_READINGS, Readings
from bayplan.state.cache import Cache
from bayplan.testing import make_node, make_pod
from tests.runtimes.scheduler.test_placing import OURS, Stage
from tests.state.test_ledger import until

NODE = make_node("n1", cpu=4).object
CORDONED = msgspec.structs.replace(NODE, spec=NodeSpec(unschedulable=True))
Change = Callable[[Stage], object]


class Workers:
    async def run(self, work: Any, **_: object) -> Any:
        return work(Attempt())


async def _alone(_: object) -> bool:
    return False


NO_SOURCES = SimpleNamespace(asked={}, current=NO_READINGS)


@contextlib.asynccontextmanager
async def scheduling(stage: Stage, *, sources: Any = NO_SOURCES) -> AsyncIterator[None]:
    """The real loop, judge and ledger; gangs and onlookers have nothing to say."""
    generation: Any = SimpleNamespace(judges={"ours": Judge(Profile.default().policies)}, sources=sources)
    generation.used = lambda: contextlib.nullcontext(generation)
    ready = asyncio.Event()
    ready.set()
    live: Any = stage.placing._live
    live.why_not_bind = str
    live.view.problem, live.view.listed = str, ready.wait
    watch = SimpleNamespace(flush=lambda: None, next_seconds=lambda: np.inf)
    gangs: Any = SimpleNamespace(watch=watch, turn=_alone, concerns=lambda _: False)
    onlookers: Any = SimpleNamespace(
        closely=False, judged=lambda *_, **__: None, begin=lambda *_: None, ended=lambda *_: None
    )
    nothing: Any = SimpleNamespace()
    loop = Loop(
        generation,
        inbox=stage.inbox,
        live=live,
        workers=Workers(),  # type: ignore[arg-type]
        onlookers=onlookers,
        placing=stage.placing,
        evicting=nothing,
        gangs=gangs,
        reporter=stage.told,  # type: ignore[arg-type]
        metrics=ScheduleMetrics(CollectorRegistry()),
    )
    task = asyncio.create_task(loop.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _theirs(stage: Stage) -> None:
    stage.cache.put_pod(make_pod("theirs", uid="theirs", cpu=1, node="n1"))


@pytest.mark.parametrize(
    ("change", "placed"),
    [
        pytest.param(_theirs, 3, id="somebody else's pod takes a place"),
        pytest.param(lambda stage: stage.cache.put_node(CORDONED), 2, id="the node is cordoned"),
    ],
)
async def test_what_happens_while_binds_take_their_time_counts_for_whoever_is_not_sent(
    change: Change, placed: int
) -> None:
    stage = Stage(pods=0, at_once=2)
    stage.cache.put_node(NODE)
    for number in range(4):
        pod = make_pod(f"p{number}", uid=f"p{number}", cpu=1, spec=OURS)
        stage.cache.put_pod(pod)
        stage.inbox.pod_is(pod)
    stage.api.hold.clear()
    async with scheduling(stage):
        await until(lambda: stage.on_node() == 2)
        change(stage)
        stage.api.hold.set()
        await until(lambda: stage.inbox.queue.count("unschedulable") == 4 - placed)

    assert len(stage.api.bound) == placed
    assert stage.placing.free == 2


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_theirs, id="somebody else's pod takes a place"),
        pytest.param(lambda stage: stage.cache.put_node(CORDONED), id="the node is cordoned"),
    ],
)
async def test_what_happens_while_a_source_is_asked_counts(change: Change) -> None:
    stage = Stage(pods=0)
    stage.cache.put_node(NODE)
    pod = make_pod("p", uid="p", cpu=4, spec=OURS)
    stage.cache.put_pod(pod)
    stage.inbox.pod_is(pod)

    async def about(*_: object, **__: object) -> Readings:
        change(stage)
        return NO_READINGS

    async with scheduling(
        stage, sources=SimpleNamespace(asked={"x": None}, current=NO_READINGS, about=about)
    ):
        await until(lambda: bool(stage.told.said))

    assert stage.told.said == [("unscheduled", "p", "Unschedulable")]
    assert stage.api.posts == []


def test_a_node_that_no_source_was_asked_about_is_not_judged_yet() -> None:
    """It would have no values, and a rule may let such a node pass."""
    cache = Cache()
    cache.put_node(NODE)
    asked = cache.snapshot()
    cache.put_pod(make_pod("theirs", node="n1"))
    later = cache.snapshot()
    cache.put_node(make_node("n2").object)

    assert newest(asked, later) is later
    assert newest(asked, cache.snapshot()) is asked
    cache.drop_node("n2")
    assert newest(asked, cache.snapshot()) is cache.snapshot()
