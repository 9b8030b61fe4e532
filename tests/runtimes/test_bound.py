"""Policies are told of binds: once at the most, and nobody waits for them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import bayplan
from bayplan.engine.guard import Attempt
from bayplan.kube.pod import Pod
from bayplan.runtimes.bound import TellBound
from bayplan.runtimes.workers import Workers
from bayplan.testing import make_cluster, make_node, make_pod
from bayplan.testing.run import ready

PATIENCE_SECONDS = 60.0
CLUSTER = make_cluster([make_node("n1", labels={"rack": "r1"})])


class Stage:
    def __init__(self, *functions: Any, limit: int = 100) -> None:
        self.policies = [policy for function in functions for policy in ready(function, None)]
        self.workers = Workers(size=2, policy_seconds=0.2, request_seconds=5.0, stuck_limit=8)
        self.dropped: list[int] = []
        self.failures: list[str] = []
        self.telling = TellBound(
            self.workers,
            cluster=lambda: CLUSTER,
            ran=self._ran,
            on_dropped=lambda: self.dropped.append(1),
            limit=limit,
        )

    def _ran(self, attempt: Attempt) -> None:
        self.failures += [kind for each in attempt.ran.values() for kind in each.failures]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.telling.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self.workers.stop()

    def bound(self, *names: str, node: str = "n1") -> None:
        for name in names:
            self.telling.tell(self.policies, make_pod(name, node=node), node)


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not true():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.005)


async def test_a_hook_is_told_of_the_pod_and_its_node() -> None:
    told: list[tuple[str, str, str]] = []

    @bayplan.bound
    def note(pod: Pod, node: bayplan.Node) -> None:
        told.append((pod.name, pod.node_name, node.labels["rack"]))

    stage = Stage(note)
    async with stage.running():
        stage.bound("a", "b")
        await stage.telling.close(timeout_seconds=PATIENCE_SECONDS)

    assert told == [("a", "n1", "r1"), ("b", "n1", "r1")]


async def test_one_that_fails_is_counted_and_the_others_are_told() -> None:
    told: list[str] = []

    @bayplan.bound
    def breaks(pod: Pod) -> None:
        raise RuntimeError(pod.name)

    @bayplan.bound
    def note(pod: Pod) -> None:
        told.append(pod.name)

    stage = Stage(breaks, note)
    async with stage.running():
        stage.bound("a", "b")
        await stage.telling.close(timeout_seconds=PATIENCE_SECONDS)

    assert told == ["a", "b"]
    assert stage.failures == ["exception"]


async def test_one_that_never_ends_is_told_once_and_those_after_it_are_told() -> None:
    told: list[str] = []

    @bayplan.bound
    def note(pod: Pod) -> None:
        told.append(pod.name)
        while pod.name == "poison":
            pass

    stage = Stage(note)
    async with stage.running():
        stage.bound("a", "poison", "b")
        await stage.telling.close(timeout_seconds=PATIENCE_SECONDS)

    assert told == ["a", "poison", "b"]
    assert stage.failures == ["overrun"]


async def test_beyond_the_limit_and_without_a_node_nobody_is_told_and_that_is_counted() -> None:
    told: list[str] = []

    @bayplan.bound
    def note(pod: Pod, node: bayplan.Node) -> None:
        told.append(f"{pod.name} on {node.name}")

    stage = Stage(note, limit=2)
    stage.bound("a", "b", "too-many")
    assert len(stage.dropped) == 1
    async with stage.running():
        await stage.telling.close(timeout_seconds=PATIENCE_SECONDS)
        stage.bound("c", node="gone")
        await until(lambda: len(stage.dropped) == 2)

    assert told == ["a on n1", "b on n1"]


async def test_one_that_gets_past_its_guard_does_not_keep_the_others_from_being_told() -> None:
    told: list[str] = []

    @bayplan.bound
    def note(pod: Pod) -> None:
        if pod.name == "wild":
            raise KeyboardInterrupt
        told.append(pod.name)

    stage = Stage(note)
    async with stage.running():
        stage.bound("wild", "a", "b")
        await stage.telling.close(timeout_seconds=PATIENCE_SECONDS)

    assert told == ["a", "b"]
    assert stage.dropped == []


async def test_where_telling_fails_all_who_are_not_told_are_counted() -> None:
    @bayplan.bound
    def note(pod: Pod) -> None:
        raise AssertionError("nobody has a cluster to tell of")

    def broken() -> None:
        raise RuntimeError("no cluster")

    stage = Stage(note)
    stage.telling._cluster = broken
    async with stage.running():
        stage.bound("a", "b", "c")
        await stage.telling.close(timeout_seconds=PATIENCE_SECONDS)

    assert len(stage.dropped) == 3


async def test_who_has_nobody_to_tell_waits_for_nothing() -> None:
    @bayplan.filter
    def anywhere(pod: Pod, node: bayplan.Node) -> None:
        """Not about binds."""

    stage = Stage(anywhere)
    stage.bound("a")

    await stage.telling.close(timeout_seconds=0.1)
    assert stage.dropped == []
