"""Policies are asked about many pods at a time, and about those they keep out not all the time."""

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import bayplan
from bayplan import Reason
from bayplan.authoring.registry import Policy
from bayplan.kube.pod import Pod
from bayplan.runtimes.scheduler.asking import Asking
from bayplan.runtimes.scheduler.inbox import Inbox
from bayplan.runtimes.scheduler.nominations import Nominations
from bayplan.runtimes.scheduler.queue import PodQueue
from bayplan.runtimes.workers import Workers
from bayplan.testing import make_cluster, make_node, make_pod
from bayplan.testing.run import ready

OURS = {"schedulerName": "ours"}
CLUSTER = make_cluster([make_node("n1")])
NODES = frozenset({"nodes"})
PATIENCE_SECONDS = 60.0


class Stage:
    """A queue whose pods policies are asked about."""

    def __init__(self, *functions: Any, policy_seconds: float = 5.0) -> None:
        self.policies: tuple[Policy, ...] = tuple(p for function in functions for p in ready(function, None))
        self.workers = Workers(size=2, policy_seconds=policy_seconds, request_seconds=30.0, stuck_limit=8)
        self.now = 0.0
        self.queue = PodQueue(asks=self._asks)
        self.inbox = Inbox(["ours"], self.queue, Nominations())
        self.may = True
        self.looked = 0
        self.changes: list[tuple[str, str]] = []
        self.asking = Asking(
            {"ours": self.policies},
            inbox=self.inbox,
            workers=self.workers,
            cluster=lambda: CLUSTER,
            may=self._may,
            clock=lambda: self.now,
            on_change=lambda pod, why, _: self.changes.append((pod.name, why)),
        )

    def _asks(self, pod: Pod) -> bool:
        return self.asking.concerns(pod)

    def _may(self) -> bool:
        self.looked += 1
        return self.may

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.asking.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self.workers.stop()

    async def looks_twice(self) -> None:
        """Wait until whatever there is to do at this moment was begun."""
        looked = self.looked

        def has_looked() -> bool:
            self.inbox.asking.set()
            return self.looked > looked + 1

        await until(has_looked)

    def put(self, name: str, **settings: Any) -> None:
        self.inbox.pod_is(make_pod(name, uid=name, spec=OURS, **settings))

    def take(self) -> list[str]:
        return [found.pod.name for found in iter(self.queue.take, None)]


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not true():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.005)


async def test_who_is_let_in_is_there_to_be_judged_and_whoever_waits_for_work_is_woken() -> None:
    @bayplan.gate
    def gate(pod: Pod) -> str | None:
        return "not this one" if pod.name == "held" else None

    stage = Stage(gate)
    async with stage.running():
        stage.put("held")
        stage.put("free")
        await until(lambda: stage.queue.count("held") == 1)
        stage.inbox.wake.clear()
        stage.put("late")
        await until(lambda: stage.queue.count("active") == 2)

    assert stage.inbox.wake.is_set()
    assert stage.take() == ["free", "late"]
    assert stage.changes == [("held", "not this one")]


async def test_who_makes_its_gate_fail_as_ctrl_c_does_keeps_nobody_else_out() -> None:
    @bayplan.gate
    def gate(pod: Pod) -> None:
        if pod.name == "bad":
            raise KeyboardInterrupt

    stage = Stage(gate)
    async with stage.running():
        stage.put("bad")
        stage.put("good")
        await until(lambda: stage.queue.count("held") + stage.queue.count("active") == 2)

    assert stage.take() == ["good"]
    ((name, why),) = stage.changes
    assert (name, why.endswith("gate: KeyboardInterrupt")) == ("bad", True)


async def test_the_order_is_that_of_the_policy() -> None:
    @bayplan.order
    def last_letter_first(pod: Pod) -> Any:
        return -ord(pod.name) if pod.name != "x" else object()

    stage = Stage(last_letter_first)
    async with stage.running():
        for name in "acxb":
            stage.put(name, priority=1000 if name == "x" else 0)
        await until(lambda: stage.queue.count("active") == 4)

    assert stage.take() == ["x", "c", "b", "a"], "x has no key, and counts by its priority"


async def test_who_is_kept_out_is_asked_about_again_when_it_may_help_and_told_when_it_changes() -> None:
    closed = ["closed"]

    @bayplan.gate
    def gate() -> Reason | None:
        return Reason(closed[0], helped_by=NODES) if closed[0] else None

    stage = Stage(gate)
    async with stage.running():
        stage.put("pod")
        await until(lambda: stage.changes == [("pod", "closed")])
        closed[0] = "still closed"
        stage.now += 2
        stage.inbox.told(NODES)
        await until(lambda: stage.changes[-1] == ("pod", "still closed"))
        closed[0] = ""
        stage.now += 2
        stage.inbox.told(NODES)
        await until(lambda: stage.queue.count("active") == 1)

    assert stage.changes == [("pod", "closed"), ("pod", "still closed"), ("pod", "")]


async def test_however_much_news_there_is_a_round_a_second_is_enough() -> None:
    asked = Counter[str]()

    @bayplan.gate
    def gate(pod: Pod) -> Reason:
        asked[pod.name] += 1
        return Reason("closed", helped_by=NODES)

    stage = Stage(gate)
    async with stage.running():
        for number in range(2000):
            stage.put(f"p{number}")
        await until(lambda: stage.queue.count("held") == 2000)
        assert set(asked.values()) == {1}
        for seconds, times in ((0.0, 2), (0.9, 2), (0.2, 3)):
            stage.now += seconds
            for _ in range(1000):
                stage.inbox.told(NODES)
                await asyncio.sleep(0)
            await until(lambda: stage.queue.count("held") == 2000)
            assert set(asked.values()) == {times}, f"after {stage.now} s"


async def test_whoever_stands_by_asks_nobody() -> None:
    asked: list[str] = []

    @bayplan.gate
    def gate(pod: Pod) -> None:
        asked.append(pod.name)

    stage = Stage(gate)
    stage.may = False
    async with stage.running():
        stage.put("pod")
        await until(lambda: stage.looked >= 3)
        assert asked == []
        stage.may = True
        await until(lambda: asked == ["pod"])


async def test_one_pod_with_which_a_gate_never_ends_does_not_keep_the_others_out() -> None:
    @bayplan.gate
    def gate(pod: Pod) -> None:
        while pod.name == "poison":
            pass

    stage = Stage(gate, policy_seconds=0.2)
    async with stage.running():
        for name in ("a", "poison", "b"):
            stage.put(name)
        await until(lambda: stage.queue.count("active") == 2 and stage.queue.count("held") == 1)

    assert sorted(stage.take()) == ["a", "b"]
    ((name, why),) = stage.changes
    assert name == "poison"
    assert "still running after 0.2 s" in why


async def test_other_policies_are_asked_about_everybody_who_is_kept_out() -> None:
    @bayplan.gate
    def gate() -> Reason:
        return Reason("closed", helped_by=frozenset({"source:never"}))

    stage = Stage(gate)
    async with stage.running():
        stage.put("pod")
        await until(lambda: stage.queue.count("held") == 1)
        stage.asking.use({"ours": ()})
        await until(lambda: stage.queue.count("active") == 1)
        stage.put("another")
        assert stage.queue.count("active") == 2


async def test_other_policies_wake_whoever_judges_those_that_were_refused() -> None:
    stage = Stage()
    stage.put("pod")
    (waiting,) = iter(stage.queue.take, None)
    stage.inbox.refused(waiting, helped_by=NODES, by=())
    stage.inbox.wake.clear()

    stage.asking.use({"ours": ()})

    assert stage.inbox.wake.is_set()
    stage.workers.stop()


async def test_a_hook_that_takes_long_is_not_asked_for_more_than_a_tenth_of_the_time() -> None:
    asked: list[float] = []

    @bayplan.gate
    def slow() -> Reason:
        asked.append(stage.now)
        stage.now += 2
        return Reason("closed", helped_by=NODES)

    stage = Stage(slow)
    async with stage.running():
        stage.put("pod")
        for _ in range(80):
            stage.now += 0.5
            stage.inbox.told(NODES)
            await stage.looks_twice()

    rests = [later - earlier for earlier, later in itertools.pairwise(asked[1:])]
    assert rests
    assert min(rests) >= 20


async def test_time_alone_is_news_every_ten_seconds() -> None:
    asked: list[float] = []

    @bayplan.gate
    def at_night() -> str:
        asked.append(stage.now)
        return "it is night"

    stage = Stage(at_night)
    async with stage.running():
        stage.put("pod")
        for _ in range(25):
            await stage.looks_twice()
            stage.now += 1

    assert asked == [0, 10, 20]


async def test_a_node_that_was_made_free_for_a_pod_is_for_others_once_a_gate_keeps_the_pod_out() -> None:
    closed: list[str] = []

    @bayplan.gate
    def gate(pod: Pod) -> Reason | None:
        return Reason("over quota", helped_by=NODES) if pod.name in closed else None

    stage = Stage(gate)
    async with stage.running():
        stage.put("evicts", priority=10)
        stage.put("low")
        await until(lambda: stage.queue.count("active") == 2)
        evicts, low = stage.queue.take(), stage.queue.take()
        assert evicts is not None
        assert low is not None
        stage.inbox.keep(evicts.pod, "n1", {"victim"})
        stage.inbox.refused(low, helped_by=frozenset({"pods"}), by=())
        closed.append("evicts")
        stage.inbox.failed(evicts)
        # Whoever judges looks, and so sees that the pause is over.
        await until(lambda: stage.queue.take() or stage.queue.count("held"))

    assert stage.inbox.nominations.of("evicts") is None
    assert low.place != "unschedulable", "it waits for room, and there is some"
