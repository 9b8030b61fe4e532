"""Making room: victims are told and deleted, the node is kept, and the pod waits for them to go."""

import asyncio
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from bayplan.client.errors import ApiError, ConnectError
from bayplan.engine.make_room import Eviction
from bayplan.kube.meta import NO_META
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
        self.refuses: dict[str, Exception] = {}
        self.asked: list[tuple[str, str, Any]] = []
        self.given: list[float] = []
        self.takes_seconds = 0.0

    async def request(
        self, method: str, path: str, *, body: Any, timeout_seconds: float, **_: object
    ) -> bytes:
        self.given.append(timeout_seconds)
        await asyncio.sleep(self.takes_seconds)
        name = path.partition("/pods/")[2].partition("/")[0]
        failure = self.script.pop(0) if self.script else self.refuses.get(name)
        if failure is not None:
            raise failure
        self.asked.append((method, path, body))
        return b"{}"

    @property
    def deleted(self) -> list[str]:
        return [path.rpartition("/")[2] for method, path, _ in self.asked if method == "DELETE"]


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
        self.noted: list[tuple[list[str], str]] = []
        metrics = ScheduleMetrics(self.registry)
        self.evicting = Evicting(
            self.api,  # type: ignore[arg-type]
            self.inbox,
            self.told,  # type: ignore[arg-type]
            metrics,
            timeout_seconds=5,
            evicted=lambda victims, pod: self.noted.append(([each.name for each in victims], pod.name)),
        )
        self.inbox.pod_is(make_pod("urgent", uid="urgent", priority=10, spec=OURS))
        waiting = self.inbox.queue.take()
        assert waiting is not None
        self.waiting = waiting
        self.inbox.wake.clear()

    async def evict(self, *victims: Pod) -> None:
        eviction = Eviction("n1", victims or (VICTIM,), 0)
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
    assert stage.noted == [(["victim"], "urgent")]
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


async def test_of_a_conflict_nobody_knows_so_the_pod_comes_again() -> None:
    """Taken for one that leaves, a victim that stays would be waited for as long as it lives."""
    stage = Stage(ApiError(409, "a webhook says no", doing="marking"))

    await stage.evict()

    assert stage.told.victims == []
    assert stage.inbox.nominations.of("urgent") is None
    assert stage.inbox.queue.count("backoff") == 1


async def test_where_a_victim_cannot_be_told_nothing_is_kept_and_the_pod_comes_again() -> None:
    stage = Stage(ConnectError("no answer"))

    await stage.evict()

    assert stage.inbox.nominations.of("urgent") is None
    assert stage.inbox.queue.count("backoff") == 1
    assert stage.noted == []


async def test_who_counted_on_the_node_and_is_less_important_has_to_look_again() -> None:
    stage = Stage()
    lesser = make_pod("lesser", uid="lesser", priority=5, spec=OURS)
    stage.inbox.pod_is(lesser)
    waiting = stage.inbox.queue.take()
    assert waiting is not None
    stage.inbox.refused(waiting, helped_by=frozenset({"nodes"}), by=())
    stage.inbox.nominations.keep(lesser, "n1")

    await stage.evict()

    assert stage.inbox.nominations.of("lesser") is None
    assert waiting.place == "backoff", "it does not wait for a node that may never come"


async def test_a_node_that_was_kept_before_is_news_for_whoever_waits_for_room() -> None:
    stage = Stage()
    stage.inbox.nominations.keep(stage.waiting.pod, "another")
    stage.inbox.pod_is(make_pod("lesser", uid="lesser", priority=5, spec=OURS))
    lesser = stage.inbox.queue.take()
    assert lesser is not None
    stage.inbox.refused(lesser, helped_by=PODS, by=())

    await stage.evict()

    assert [kept.node for kept in stage.inbox.nominations] == ["n1"]
    assert lesser.place == "backoff"


def several() -> list[Pod]:
    return [make_pod(name, uid=name, node="n1") for name in ("first", "second", "last")]


async def test_the_last_victim_is_told_when_all_others_have_been() -> None:
    stage = Stage()

    await stage.evict(*several())

    assert sorted(stage.api.deleted[:2]) == ["first", "second"]
    assert stage.api.deleted[2:] == ["last"]
    assert [path.split("/")[-2] for _, path, _ in stage.api.asked[-2:-1]] == ["last"]
    assert stage.registry.get_sample_value("bayplan_preemption_victims_sum") == 3


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(ConnectError("no answer"), id="no answer"),
        pytest.param(ApiError(403, "not yours", doing="deleting"), id="no right"),
        pytest.param(RuntimeError("no idea"), id="whatever it is"),
    ],
)
async def test_where_one_cannot_be_told_the_last_one_stays_and_the_room_of_the_others_is_kept(
    failure: Exception,
) -> None:
    stage = Stage()
    stage.api.refuses["second"] = failure

    await stage.evict(*several())

    assert stage.api.deleted == ["first"]
    kept = stage.inbox.nominations.of("urgent")
    assert kept is not None
    assert (kept.node, kept.victims) == ("n1", frozenset({"first"}))
    assert stage.inbox.queue.count("backoff") == 1
    assert stage.registry.get_sample_value("bayplan_preemption_victims_count") == 0


async def test_who_is_leaving_already_is_not_told_again() -> None:
    stage = Stage()
    first, second, last = several()
    meta = msgspec.structs.replace(last.metadata or NO_META, deletion_timestamp="2026-01-01T00:00:00Z")

    await stage.evict(first, second, msgspec.structs.replace(last, metadata=meta))

    assert stage.api.deleted == ["first", "second"]
    assert stage.told.victims == ["first", "second"]
    kept = stage.inbox.nominations.of("urgent")
    assert kept is not None
    assert kept.victims == {"first", "second", "last"}
    assert stage.inbox.queue.count("unschedulable") == 1


async def test_nobody_leaves_for_a_pod_that_is_gone() -> None:
    stage = Stage()
    stage.inbox.pod_gone(stage.waiting.pod)

    await stage.evict(*several())

    assert stage.api.asked == []
    assert stage.inbox.nominations.of("urgent") is None


async def test_who_may_not_act_any_more_evicts_nobody_and_the_pod_comes_again() -> None:
    stage = Stage()
    stage.evicting.why_not = lambda: "another server binds"

    await stage.evict()

    assert stage.api.asked == []
    assert stage.inbox.queue.count("backoff") == 1
    assert stage.inbox.nominations.of("urgent") is None


async def test_both_requests_of_an_eviction_share_the_time_of_a_bind() -> None:
    stage = Stage()
    stage.api.takes_seconds = 0.05

    assert await stage.evicting._leave(VICTIM, stage.waiting.pod)

    first, second = stage.api.given
    assert first <= 5
    assert second <= first - 0.05
