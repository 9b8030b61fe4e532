"""Making room: victims are told and deleted, the node is kept, and the pod waits for them to go."""

import asyncio
from typing import Any

from prometheus_client import CollectorRegistry

from bayplan.client.errors import ApiError, ConnectError
from bayplan.engine.make_room import Eviction
from bayplan.kube.pod import Pod
from bayplan.ops.schedule_metrics import ScheduleMetrics
from bayplan.runtimes.scheduler.evicting import Evicting
from bayplan.runtimes.scheduler.inbox import Inbox
from bayplan.runtimes.scheduler.nominations import Nominations
from bayplan.runtimes.scheduler.queue import PodQueue
from bayplan.testing import make_pod

OURS = {"schedulerName": "ours"}
PODS = frozenset({"pods"})
VICTIM = make_pod("victim", uid="victim", node="n1")


class Api:
    """Writes down what it is asked."""

    def __init__(self, *script: Exception | None) -> None:
        self.script = list(script)
        self.asked: list[tuple[str, str, Any]] = []

    async def request(self, method: str, path: str, *, body: Any, **_: object) -> bytes:
        failure = self.script.pop(0) if self.script else None
        if failure is not None:
            raise failure
        self.asked.append((method, path, body))
        return b"{}"


class Told:
    def __init__(self) -> None:
        self.victims: list[str] = []

    def preempted(self, victim: Pod, *, by: Pod) -> None:
        self.victims.append(victim.name)


class Stage:
    """A pod that is being judged, and a victim."""

    def __init__(self, *script: Exception | None) -> None:
        self.api, self.told, self.registry = Api(*script), Told(), CollectorRegistry()
        self.inbox = Inbox(["ours"], PodQueue(), Nominations())
        metrics = ScheduleMetrics(self.registry)
        self.evicting = Evicting(self.api, self.inbox, self.told, metrics)  # type: ignore[arg-type]
        self.inbox.pod_is(make_pod("urgent", uid="urgent", priority=10, spec=OURS))
        waiting = self.inbox.queue.take()
        assert waiting is not None
        self.waiting = waiting
        self.inbox.wake.clear()

    async def evict(self) -> None:
        eviction = Eviction("n1", (VICTIM,), 0)
        self.evicting.begin(self.waiting, eviction, helped_by=frozenset({"nodes"}), by=frozenset({"Fit"}))
        async with asyncio.timeout(5):
            await self.inbox.wake.wait()


async def test_a_victim_is_marked_and_deleted_by_its_uid() -> None:
    stage = Stage()

    await stage.evict()

    (_, status, mark), (method, path, options) = stage.api.asked
    assert status == "/api/v1/namespaces/default/pods/victim/status"
    assert mark["metadata"] == {"uid": "victim"}
    (condition,) = mark["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("DisruptionTarget", "PreemptionByScheduler")
    assert condition["message"] == "ours: preempting to accommodate a higher priority pod"
    assert (method, path) == ("DELETE", "/api/v1/namespaces/default/pods/victim")
    assert options["preconditions"] == {"uid": "victim"}
    assert stage.told.victims == ["victim"]
    assert stage.registry.get_sample_value("bayplan_preemption_victims_sum") == 1


async def test_the_node_is_kept_and_the_pod_waits_for_pods_to_go() -> None:
    stage = Stage()

    await stage.evict()

    kept = stage.inbox.nominations.of("urgent")
    assert kept is not None
    assert (kept.node, kept.victims) == ("n1", frozenset({"victim"}))
    assert stage.inbox.queue.count("unschedulable") == 1
    assert stage.inbox.queue.tell(PODS) == 1


async def test_a_victim_that_went_at_once_brings_the_pod_back_after_its_pause() -> None:
    stage = Stage()
    stage.inbox.queue.tell(PODS)

    await stage.evict()

    assert stage.inbox.queue.count("backoff") == 1


async def test_a_victim_that_is_gone_already_is_no_trouble() -> None:
    stage = Stage(ApiError(404, "gone", doing="marking"))

    await stage.evict()

    assert stage.told.victims == []
    assert stage.inbox.queue.count("unschedulable") == 1


async def test_where_a_victim_cannot_be_told_nothing_is_kept_and_the_pod_comes_again() -> None:
    stage = Stage(ConnectError("no answer"))

    await stage.evict()

    assert stage.inbox.nominations.of("urgent") is None
    assert stage.inbox.queue.count("backoff") == 1


async def test_who_counted_on_the_node_and_is_less_important_has_to_look_again() -> None:
    stage = Stage()
    stage.inbox.nominations.keep(make_pod("lesser", uid="lesser", priority=5), "n1")

    await stage.evict()

    assert stage.inbox.nominations.of("lesser") is None
