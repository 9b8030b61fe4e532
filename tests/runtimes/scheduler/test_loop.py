"""The loop: whatever goes wrong with one pod, no other is lost, and it goes on."""

import asyncio
import contextlib
import itertools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from bayplan.engine.guard import Attempt
from bayplan.kube.pod import Pod
from bayplan.ops.schedule_metrics import ScheduleMetrics
from bayplan.runtimes.scheduler.inbox import Inbox
from bayplan.runtimes.scheduler.loop import Loop
from bayplan.runtimes.scheduler.nominations import Nominations
from bayplan.runtimes.scheduler.queue import PodQueue, Waiting
from bayplan.snapshot.sources import NO_READINGS
from bayplan.testing import make_cluster, make_node, make_pod
from tests.state.test_ledger import until

CLUSTER = make_cluster([make_node("n1")])
OURS = {"schedulerName": "ours"}


class Judge:
    """Places every pod on the one node."""

    policies = ()
    shadows: frozenset[str] = frozenset()

    def place_some(self, pods: list[Pod], cluster: Any, attempt: Attempt, *, seconds: float) -> list[Any]:
        return [SimpleNamespace(found=_found(), cluster=cluster) for _ in pods]

    def judge(self, pod: Pod, cluster: Any, attempt: Attempt, *, kept: Any) -> Any:
        return _found()


def _found() -> Any:
    return SimpleNamespace(node="n1", annotations={}, error="", message="")


class Workers:
    async def run(self, work: Any, **_: object) -> Any:
        return work(Attempt())


class Stage:
    """Everything around the loop, where something goes wrong with the pods that the test names."""

    def __init__(self, *pods: str) -> None:
        self.inbox = Inbox(["ours"], PodQueue(), Nominations())
        self.sent: list[str] = []
        self.unseen: set[str] = set()
        self.surprises_later: set[str] = set()
        self.told: list[tuple[str, str, str]] = []
        self.mute = False
        self.registry = CollectorRegistry()
        self.judges = {"ours": Judge()}
        self.sources = SimpleNamespace(asked={}, current=NO_READINGS)
        cache = SimpleNamespace(snapshot=lambda: CLUSTER)
        ready = asyncio.Event()
        ready.set()
        live = SimpleNamespace(
            view=SimpleNamespace(cache=cache, listed=ready.wait, problem=str), why_not_bind=str
        )
        gangs = SimpleNamespace(
            watch=SimpleNamespace(flush=lambda: None, next_seconds=lambda: np.inf),
            turn=self._alone,
            concerns=lambda _: False,
        )
        nothing: Any = SimpleNamespace()
        reporter: Any = SimpleNamespace(unscheduled=self._unscheduled)
        self.loop = Loop(
            self,  # type: ignore[arg-type]
            inbox=self.inbox,
            live=live,  # type: ignore[arg-type]
            workers=Workers(),  # type: ignore[arg-type]
            onlookers=self,  # type: ignore[arg-type]
            placing=self,  # type: ignore[arg-type]
            evicting=nothing,
            gangs=gangs,  # type: ignore[arg-type]
            reporter=reporter,
            metrics=ScheduleMetrics(self.registry),
        )
        for name in pods:
            self.inbox.pod_is(make_pod(name, uid=name, spec=OURS))

    closely = False
    free, has_room = 100, True

    async def _alone(self, waiting: Waiting) -> bool:
        return False

    def _unscheduled(self, pod: Pod, why: str, message: str, **_: object) -> None:
        if self.mute:
            raise RuntimeError("nothing can be told")
        self.told.append((pod.name, why, message))

    def ended(self, *_: object) -> None:
        """As somebody who looks on."""

    def attempts(self, result: str) -> float | None:
        labels = {"result": result, "profile": "ours"}
        return self.registry.get_sample_value("bayplan_schedule_attempts_total", labels)

    @contextlib.contextmanager
    def used(self) -> Iterator["Stage"]:
        yield self

    def begin(self, *_: object) -> None:
        """As somebody who looks on."""

    def judged(self, seen: Any, *, began: float) -> None:
        """As somebody who looks on."""
        if seen.pod.name in self.unseen:
            raise RuntimeError("what was that")

    async def place(self, waiting: Waiting, node: str, annotations: Any, *, began: float) -> None:
        """As whoever binds."""
        self.sent.append(waiting.pod.name)
        self.inbox.queue.placed(waiting)
        if waiting.pod.name in self.surprises_later:
            raise RuntimeError("what was that")

    @contextlib.asynccontextmanager
    async def running(self) -> Any:
        task = asyncio.create_task(self.loop.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("lost", ["a", "b", "c"])
async def test_of_several_that_are_judged_together_only_the_one_comes_again_with_which_it_went_wrong(
    lost: str,
) -> None:
    stage = Stage("a", "b", "c")
    stage.unseen = {lost}

    async with stage.running():
        await until(lambda: len(stage.sent) == 2 and stage.inbox.queue.count("backoff") == 1)

    assert sorted([*stage.sent, lost]) == ["a", "b", "c"]
    assert stage.inbox.queue.count("placed") == 2
    assert stage.inbox.queue.count("taken") == 0


async def test_a_pod_that_is_on_its_way_is_not_tried_again_whatever_went_wrong_then() -> None:
    stage = Stage("a")
    stage.surprises_later = {"a"}

    async with stage.running():
        await until(lambda: stage.sent == ["a"] and not stage.inbox.wake.is_set())

    assert stage.inbox.queue.count("placed") == 1
    assert stage.attempts("error") is None, "what becomes of it is counted there"
    assert stage.told == []


@pytest.mark.parametrize(
    "pods", [pytest.param(["a"], id="for itself"), pytest.param(["a", "b", "c"], id="together with others")]
)
async def test_a_surprise_counts_as_an_error_and_the_pod_is_told(pods: list[str]) -> None:
    stage = Stage(*pods)
    stage.unseen = {"a"}

    async with stage.running():
        await until(lambda: stage.inbox.queue.count("backoff") == 1 and len(stage.sent) == len(pods) - 1)

    assert stage.attempts("error") == 1
    assert stage.told == [("a", "SchedulerError", "RuntimeError: what was that")]


async def test_a_surprise_of_which_nobody_can_be_told_does_not_stop_the_loop() -> None:
    stage = Stage("a")
    stage.unseen, stage.mute = {"a"}, True

    async with stage.running():
        await until(lambda: stage.inbox.queue.count("backoff") == 1)
        stage.inbox.pod_is(make_pod("b", uid="b", spec=OURS))
        await until(lambda: stage.sent == ["b"])

    assert stage.attempts("error") == 1


async def test_a_pod_that_was_tried_often_does_not_wait_ten_seconds_while_there_is_nothing_else_to_do() -> (
    None
):
    """A node came up for it: kube-scheduler takes it from its pause, too, when its queue is empty."""
    stage = Stage("often")
    queue = stage.inbox.queue
    waiting = queue.take()
    assert waiting is not None
    waiting.attempts = 10
    stage.inbox.refused(waiting, helped_by=frozenset({"nodes"}), by=())
    stage.inbox.told(frozenset({"nodes"}))
    began = asyncio.get_running_loop().time()
    async with stage.running():
        await until(lambda: stage.sent == ["often"])

    assert 0.9 < asyncio.get_running_loop().time() - began < 8.0


async def test_pods_that_come_early_take_a_small_part_of_the_time() -> None:
    stage = Stage()
    tried: list[float] = []
    news = frozenset({"nodes"})

    async def refuse(waiting: Waiting) -> bool:
        tried.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0.05)
        stage.inbox.refused(waiting, helped_by=news, by=())
        stage.inbox.told(news)
        return True

    stage.loop._gangs.turn = refuse  # type: ignore[method-assign]
    for name in "abcd":
        stage.inbox.pod_is(make_pod(name, uid=name, spec=OURS))
        waiting = stage.inbox.queue.take()
        assert waiting is not None
        waiting.attempts = 10
        stage.inbox.refused(waiting, helped_by=news, by=())
    stage.inbox.told(news)
    async with stage.running():
        await until(lambda: len(tried) == 3)

    assert min(later - one for one, later in itertools.pairwise(tried)) > 0.4
