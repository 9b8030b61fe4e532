"""A scheduler for gangs without an API server: a cache, a queue, an answer to each bind by a script."""

import contextlib
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry

from bayplan import Profile
from bayplan.authoring.registry import Policy
from bayplan.engine.decision import Decision
from bayplan.kube.pod import Pod
from bayplan.ops.metrics import Metrics
from bayplan.ops.schedule_metrics import ScheduleMetrics
from bayplan.runtimes.scheduler.gangs import Gangs
from bayplan.runtimes.scheduler.inbox import Inbox
from bayplan.runtimes.scheduler.nominations import Nominations
from bayplan.runtimes.scheduler.placing import Placing
from bayplan.runtimes.scheduler.queue import PodQueue
from bayplan.runtimes.workers import Workers
from bayplan.snapshot.sources import NO_READINGS
from bayplan.state import news
from bayplan.state.cache import Cache
from bayplan.state.ledger import Ledger
from bayplan.testing import make_node, make_pod
from tests.state.test_ledger import Api

DEFAULT = Profile.default().policies
NOTHING: Mapping[str, str] = {}


class Clock:
    """Time that stands still until somebody moves it."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Told:
    """Writes down what would be reported."""

    def __init__(self) -> None:
        self.said: dict[str, str] = {}
        self.times: Counter[str] = Counter()

    def scheduled(self, pod: Pod, node: str) -> None:
        self.said.pop(pod.name, None)

    def unscheduled(self, pod: Pod, why: str, message: str, **_: Any) -> None:
        self.said[pod.name] = message
        self.times[pod.name] += 1


class GangStage:
    """Pods of the scheduler ``ours``, nodes in racks, and binds that go as the script says."""

    def __init__(
        self,
        *script: Exception | None,
        policies: Sequence[Policy] = DEFAULT,
        at_once: int = 100,
        gated: bool = False,
        policy_seconds: float = 5.0,
        attempt_seconds: float = 20.0,
    ) -> None:
        self.api, self.cache, self.told, self.clock = Api(*script), Cache(), Told(), Clock()
        queue = PodQueue(clock=self.clock, asks=lambda _: gated)
        self.inbox = Inbox(["ours"], queue, Nominations())
        self.term, self.why_not = 1, ""
        self.registry = CollectorRegistry()
        self.decisions: list[Decision] = []
        self.metrics = Metrics(version="test")
        self.workers = Workers(
            size=1, policy_seconds=policy_seconds, request_seconds=attempt_seconds, stuck_limit=4
        )
        self.policies = tuple(policies)
        self.generation: Any = self
        ledger = Ledger(
            self.cache,
            self.api,  # type: ignore[arg-type]
            commit=None,
            timeout_seconds=1.0,
            why_not=lambda: self.why_not,
            term=lambda: self.term,
        )
        live: Any = SimpleNamespace(view=SimpleNamespace(cache=self.cache), ledger=ledger)
        metrics = ScheduleMetrics(self.registry)
        self.placing = Placing(live, self.inbox, self.told, metrics, at_once=at_once)  # type: ignore[arg-type]
        self.gangs = Gangs(
            lambda: self.generation,
            inbox=self.inbox,
            live=live,
            workers=self.workers,
            placing=self.placing,
            reporter=self.told,  # type: ignore[arg-type]
            metrics=metrics,
            record=lambda _, decision: self.decisions.append(decision),
            ran=self.metrics.ran,
            rng=random.Random(1),
            clock=self.clock,
        )
        self.inbox.on_pod = self.gangs.roster.seen

    @property
    def judges(self) -> dict[str, Any]:
        """As a generation of policies has them."""
        return {"ours": SimpleNamespace(policies=self.policies)}

    @property
    def sources(self) -> Any:
        """As a generation of policies has them."""
        return SimpleNamespace(asked={}, current=NO_READINGS)

    @contextlib.contextmanager
    def used(self) -> Iterator["GangStage"]:
        """As a generation of policies is used."""
        yield self

    def close(self) -> None:
        """Let the thread end."""
        self.workers.stop()

    def node(self, name: str, *, rack: str = "", cpu: float = 2) -> None:
        """A node is there."""
        self.cache.put_node(make_node(name, cpu=cpu, labels={"rack": rack} if rack else {}).object)

    def pod(
        self,
        name: str,
        *,
        gang: str = "",
        size: int = 2,
        cpu: float = 1,
        within: str = "",
        timeout: str = "",
        node: str | None = None,
        labels: Mapping[str, str] = NOTHING,
        priority: int = 0,
    ) -> Pod:
        """A pod is there, as the watch tells."""
        said = dict(labels)
        if gang:
            said |= {"bayplan.dev/gang": gang, "bayplan.dev/gang-size": str(size)}
        if timeout:
            said["bayplan.dev/gang-timeout"] = timeout
        if within:
            said["bayplan.dev/gang-within"] = within
        spec = {"schedulerName": "ours"}
        pod = make_pod(name, uid=name, labels=said, cpu=cpu, spec=spec, node=node, priority=priority)
        self.cache.put_pod(pod)
        self.inbox.pod_is(pod)
        return pod

    def gang(self, name: str, size: int, *, members: int | None = None, first: int = 0, **more: Any) -> None:
        """Members of a gang are there."""
        for number in range(first, first + (size if members is None else members)):
            self.pod(f"{name}-{number}", gang=name, size=size, **more)

    def gone(self, name: str) -> None:
        """A pod is deleted."""
        pod = self.cache.pod(f"default/{name}")
        assert pod is not None
        self.cache.drop_pod(pod.key)
        self.inbox.pod_gone(pod)
        self.gangs.gone(pod.uid)
        self.inbox.told(news.of_pod(pod, None))

    def answer(self, *kept_out: str) -> list[str]:
        """Policies are asked about whoever there is to ask about, and keep these out; who that was."""
        asked = self.inbox.queue.to_ask(100)
        for ticket, waiting in asked:
            if waiting.pod.name in kept_out:
                self.inbox.queue.keep_out(waiting, ticket, why="not now", helped_by=frozenset({"nodes"}))
            else:
                self.inbox.let_in(waiting, ticket, key=None)
        return [waiting.pod.name for _, waiting in asked]

    async def turns(self) -> list[str]:
        """Everybody has his turn who is ready; the names of those in no gang."""
        alone = []
        while (waiting := self.inbox.queue.take()) is not None:
            if not await self.gangs.turn(waiting):
                alone.append(waiting.pod.name)
                self.inbox.queue.drop(waiting.pod.uid)
        return alone

    async def settle(self) -> None:
        """Turns, and then the binds that came of them."""
        await self.turns()
        await self.placing.finish(timeout_seconds=5)

    def later(self, seconds: float) -> None:
        """Time goes on, and whoever is to be told is told."""
        self.clock.now += seconds
        self.gangs.watch.flush()

    def places(self) -> dict[str, str]:
        """The node of each pod that has one or is assumed on one."""
        return {pod.name: pod.node_name for pod in self.cache.pods if pod.node_name}

    def count(self, result: str) -> float | None:
        """How many gangs came to that."""
        return self.registry.get_sample_value("bayplan_gang_attempts_total", {"result": result})
