"""From a decision to a fact: assumed at once, bound meanwhile, back in the queue where it was refused."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from bayplan.client.errors import ApiError, ConnectError
from bayplan.kube.pod import Pod
from bayplan.ops.schedule_metrics import ScheduleMetrics
from bayplan.runtimes.scheduler.inbox import Inbox
from bayplan.runtimes.scheduler.nominations import Nominations
from bayplan.runtimes.scheduler.placing import Placing
from bayplan.runtimes.scheduler.queue import PodQueue, Waiting
from bayplan.state import ledger as ledger_module
from bayplan.state.cache import Cache
from bayplan.state.ledger import Ledger
from bayplan.testing import make_node, make_pod
from tests.state.test_ledger import Api, until

OURS = {"schedulerName": "ours"}
REFUSED = ApiError(403, "no", doing="binding")
NOBODY_KNOWS = ConnectError("the connection broke")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "_ROLL_FORWARD_SECONDS", (0.001, 0.002))
    monkeypatch.setattr("bayplan.client.bind._RETRY_SECONDS", ())


class Told:
    """Writes down what would be reported."""

    def __init__(self) -> None:
        self.said: list[tuple[str, ...]] = []

    def scheduled(self, pod: Pod, node: str) -> None:
        self.said.append(("scheduled", pod.name, node))

    def unscheduled(self, pod: Pod, why: str, message: str, **_: Any) -> None:
        self.said.append(("unscheduled", pod.name, why))


class Stage:
    """A cache, an API server by a script, and a queue with pods in it."""

    def __init__(self, *script: Exception | None, pods: int = 1, at_once: int = 100) -> None:
        self.api, self.cache, self.told = Api(*script), Cache(), Told()
        self.cache.put_node(make_node("n1").object)
        self.inbox = Inbox(["ours"], PodQueue(), Nominations())
        self.registry = CollectorRegistry()
        ledger = Ledger(self.cache, self.api, commit=None, timeout_seconds=1.0)  # type: ignore[arg-type]
        live: Any = SimpleNamespace(view=SimpleNamespace(cache=self.cache), ledger=ledger)
        metrics = ScheduleMetrics(self.registry)
        self.placing = Placing(live, self.inbox, self.told, metrics, at_once=at_once)  # type: ignore[arg-type]
        for number in range(pods):
            pod = make_pod(f"p{number}", uid=f"p{number}", spec=OURS)
            self.cache.put_pod(pod)
            self.inbox.pod_is(pod)

    def take(self) -> Waiting:
        found = self.inbox.queue.take()
        assert found is not None
        return found

    async def place(self, waiting: Waiting, node: str = "n1") -> None:
        await self.placing.place(waiting, node, {}, began=0.0)

    def on_node(self) -> int:
        return int(self.cache.snapshot().nodes.count()[0])

    def attempts(self, result: str) -> float | None:
        labels = {"result": result, "profile": "ours"}
        return self.registry.get_sample_value("bayplan_schedule_attempts_total", labels)


async def test_a_pod_counts_on_its_node_before_the_api_server_has_said_anything() -> None:
    stage = Stage()
    stage.api.hold.clear()

    await stage.place(stage.take())
    assert stage.on_node() == 1
    stage.api.hold.set()
    await stage.placing.finish(timeout_seconds=5)

    assert stage.told.said == [("scheduled", "p0", "n1")]
    assert stage.attempts("scheduled") == 1
    assert len(stage.inbox.queue) == 0


async def test_a_refused_pod_comes_back_after_its_pause_and_its_place_is_free() -> None:
    stage = Stage(REFUSED)

    await stage.place(stage.take())
    await stage.placing.finish(timeout_seconds=5)

    assert stage.on_node() == 0
    assert stage.inbox.queue.count("backoff") == 1
    assert stage.told.said == [("unscheduled", "p0", "SchedulerError")]
    assert stage.attempts("error") == 1


async def test_nobody_knows_at_first_and_then_it_is_bound() -> None:
    stage = Stage(NOBODY_KNOWS, NOBODY_KNOWS)

    await stage.place(stage.take())
    await stage.placing.finish(timeout_seconds=5)

    assert stage.api.bound == {"p0": "n1"}
    assert stage.told.said == [("scheduled", "p0", "n1")]
    assert len(stage.inbox.queue) == 0


async def test_nobody_knows_at_first_and_then_the_pod_is_gone() -> None:
    stage = Stage(NOBODY_KNOWS, ApiError(404, "gone", doing="binding"))

    await stage.place(stage.take())
    await stage.placing.finish(timeout_seconds=5)

    assert stage.on_node() == 0
    assert stage.inbox.queue.count("backoff") == 1, "until the watch tells that it is gone"


async def test_a_surprise_is_rolled_forward_like_everything_that_nobody_knows() -> None:
    stage = Stage(RuntimeError("what was that"))

    await stage.place(stage.take())
    await stage.placing.finish(timeout_seconds=5)

    assert stage.api.bound == {"p0": "n1"}
    assert stage.told.said == [("scheduled", "p0", "n1")]


async def test_no_more_binds_are_under_way_than_may_be() -> None:
    stage = Stage(pods=3, at_once=2)
    stage.api.hold.clear()
    waiting = [stage.take() for _ in range(3)]
    await stage.place(waiting[0])
    await stage.place(waiting[1])

    third = asyncio.create_task(stage.place(waiting[2]))
    await until(lambda: len(stage.api.posts) == 2)
    assert not third.done()
    stage.api.hold.set()
    await third
    await stage.placing.finish(timeout_seconds=5)

    assert len(stage.api.bound) == 3


async def test_a_node_that_went_while_the_pod_was_judged_is_not_used() -> None:
    stage = Stage()

    await stage.place(stage.take(), "gone")

    assert stage.api.posts == []
    assert stage.inbox.queue.count("backoff") == 1
    assert stage.told.said == [("unscheduled", "p0", "SchedulerError")]
    assert stage.attempts("error") == 1


async def test_of_a_pod_that_has_a_node_meanwhile_nothing_is_said() -> None:
    stage = Stage()
    waiting = stage.take()
    stage.cache.put_pod(make_pod("p0", uid="p0", spec={**OURS, "nodeName": "n1"}))

    await stage.place(waiting)

    assert stage.api.posts == []
    assert (stage.told.said, stage.attempts("error")) == ([], None)


async def test_a_bound_pod_is_news_for_those_who_want_to_be_near_it() -> None:
    stage = Stage(pods=2)
    near = stage.take()
    stage.inbox.queue.refused(near, helped_by=frozenset({"placed"}))

    await stage.place(stage.take())

    assert stage.inbox.queue.count("unschedulable") == 0
    await stage.placing.finish(timeout_seconds=5)


async def test_a_surprise_in_telling_does_not_lose_the_pod() -> None:
    stage = Stage(REFUSED)

    def surprise(*_: Any) -> None:
        raise RuntimeError("the journal is full")

    stage.placing._outcomes._on_bind = surprise
    await stage.place(stage.take())
    (task,) = stage.placing._tasks
    with pytest.raises(RuntimeError):
        await task

    assert stage.inbox.queue.count("backoff") == 1
    assert stage.inbox.binding == set()
