"""Several pods get their places together: all are assumed at once, or none; in time, or given back."""

import asyncio
from typing import Any

import msgspec
import pytest

from bayplan.client.errors import ApiError
from bayplan.ops.tracing import begin, current_trace
from bayplan.runtimes.scheduler.queue import Waiting
from bayplan.runtimes.scheduler.volumes_kept import VolumesRefused
from bayplan.testing import make_node, make_pod
from tests.runtimes.scheduler.test_placing import OURS, Stage
from tests.state.test_ledger import until

HOUR_SECONDS = 3600.0
PLAIN = make_pod("plain", spec=OURS).spec
NO_VOLUME = pytest.mark.parametrize(
    ("problem", "timeout_seconds"),
    [
        pytest.param("no room on it", HOUR_SECONDS, id="a volume cannot be made"),
        pytest.param("", 0.05, id="a volume takes too long"),
    ],
)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bayplan.client.bind._RETRY_SECONDS", ())


class Volumes:
    """Keeps something for one pod, which it gets when the test says so."""

    def __init__(self, owner: str, *, problem: str = "", refuses: str = "") -> None:
        self.wait = self
        self.count = 0
        self.ready = asyncio.Event()
        self.released: list[str] = []
        self._owner = owner
        self._problem = problem
        self._refuses = refuses

    def keep(self, pod: Any, node: str) -> Any:
        if pod.name == self._refuses:
            raise VolumesRefused("taken")
        return pod if pod.name == self._owner else None

    def release(self, kept: Any) -> None:
        self.released.append(kept.name)

    async def write(self, kept: Any) -> None:
        if self._problem:
            raise VolumesRefused(self._problem)

    async def bound(self, kept: Any) -> None:
        self.count += 1
        await self.ready.wait()
        self.count -= 1

    def stop(self) -> None:
        self.ready.set()


def together(stage: Stage, *, timeout_seconds: float = HOUR_SECONDS, nodes: tuple[str, ...] = ()) -> bool:
    waiting: list[Waiting] = []
    while (found := stage.inbox.queue.take()) is not None:
        waiting.append(found)
    places: list[tuple[Waiting, str, dict[str, str]]] = [
        (one, node, {}) for one, node in zip(waiting, nodes or ("n1",) * len(waiting), strict=True)
    ]
    return stage.placing.place_all(places, title="gang g", began=0.0, timeout_seconds=timeout_seconds)


async def test_all_are_assumed_before_the_api_server_is_asked_for_any() -> None:
    stage = Stage(pods=3)

    assert together(stage)

    assert stage.api.posts == []
    assert stage.on_node() == 3
    await stage.placing.finish(timeout_seconds=5)
    assert len(stage.api.bound) == 3
    assert len(stage.inbox.queue) == 0


async def test_where_one_node_is_gone_nobody_is_assumed() -> None:
    stage = Stage(pods=2)

    assert not together(stage, nodes=("n1", "gone"))

    assert stage.on_node() == 0
    assert stage.inbox.queue.count("backoff") == 2
    assert stage.told.said == [("unscheduled", name, "SchedulerError") for name in ("p0", "p1")]
    assert stage.attempts("error") == 2


async def test_where_one_does_not_get_its_volume_kept_nobody_is_assumed_and_the_others_give_theirs_back() -> (
    None
):
    stage = Stage(pods=2)
    volumes = Volumes("p0", refuses="p1")
    stage.placing._volumes = volumes  # type: ignore[assignment]

    assert not together(stage)

    assert stage.on_node() == 0
    assert volumes.released == ["p0"]


async def test_those_that_cannot_go_are_not_told_of_in_the_trace_of_the_pod_before_them() -> None:
    stage, traces = Stage(pods=2), []
    stage.placing._outcomes._on_bind = lambda *_: traces.append(current_trace())
    begin("schedule", 1, {})

    assert not together(stage, nodes=("n1", "gone"))

    assert traces == [None, None]


async def test_a_refused_bind_is_of_that_pod_alone() -> None:
    stage = Stage(ApiError(403, "no", doing="binding"), pods=2)

    together(stage)
    await stage.placing.finish(timeout_seconds=5)

    assert len(stage.api.bound) == 1
    assert stage.on_node() == 1
    assert stage.inbox.queue.count("backoff") == 1


async def test_those_that_are_not_sent_in_time_give_their_places_back() -> None:
    stage = Stage(pods=3, at_once=1)
    stage.api.hold.clear()

    together(stage, timeout_seconds=0.05)
    await until(lambda: stage.on_node() == 1)

    assert stage.inbox.queue.count("backoff") == 2
    stage.api.hold.set()
    await stage.placing.finish(timeout_seconds=5)
    assert list(stage.api.bound) == ["p0"], "what was sent cannot be called back"


async def test_nobody_is_bound_before_all_have_their_volumes() -> None:
    stage = Stage(pods=2)
    volumes = Volumes("p1")
    stage.placing._volumes = volumes  # type: ignore[assignment]

    together(stage)
    for _ in range(10):
        await asyncio.sleep(0)
    assert stage.api.posts == []
    volumes.ready.set()
    await stage.placing.finish(timeout_seconds=5)

    assert len(stage.api.bound) == 2


@NO_VOLUME
async def test_where_one_gets_no_volume_all_give_their_places_back(
    problem: str, timeout_seconds: float
) -> None:
    stage = Stage(pods=2)
    stage.placing._volumes = Volumes("p1", problem=problem)  # type: ignore[assignment]

    together(stage, timeout_seconds=timeout_seconds)
    await until(lambda: stage.on_node() == 0)
    await stage.placing.finish(timeout_seconds=5)

    assert stage.api.posts == []
    assert stage.inbox.queue.count("backoff") == 2
    assert {said[:2] for said in stage.told.said} == {("unscheduled", "p0"), ("unscheduled", "p1")}


@pytest.mark.parametrize(
    ("what", "left"),
    [
        pytest.param("gone", {"p1"}, id="a member is deleted"),
        pytest.param("terminating", {"p1"}, id="a member is being deleted"),
        pytest.param("node", {"p0", "p1"}, id="a node is deleted"),
    ],
)
async def test_where_a_member_or_a_node_goes_while_another_waits_for_its_volume_nobody_is_bound(
    what: str, left: set[str]
) -> None:
    stage = Stage(pods=2)
    stage.cache.put_node(make_node("n2").object)
    stage.placing._volumes = volumes = Volumes("p1")  # type: ignore[assignment]
    together(stage, nodes=("n2", "n1"))
    await until(lambda: volumes.count == 1)

    pod = stage.cache.pod("default/p0")
    assert pod is not None
    if what == "node":
        stage.cache.drop_node("n2")
    elif what == "gone":
        stage.cache.drop_pod(pod.key)
        stage.inbox.pod_gone(pod)
    else:
        ends = msgspec.structs.replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")  # type: ignore[type-var]
        stage.cache.put_pod(msgspec.structs.replace(pod, metadata=ends, spec=PLAIN))
        stage.inbox.pod_is(stage.cache.pod(pod.key) or pod)
    volumes.ready.set()
    await stage.placing.finish(timeout_seconds=5)

    assert stage.api.posts == []
    assert stage.on_node() == 0
    assert {pod.name for pod in stage.inbox.queue.pods()} == left


async def test_members_that_wait_for_volumes_are_not_counted_among_the_binds() -> None:
    stage = Stage(pods=3)
    stage.placing._volumes = volumes = Volumes("p1")  # type: ignore[assignment]
    stage.api.hold.clear()
    lonely = stage.take()
    together(stage)
    await stage.place(lonely)
    await until(lambda: volumes.count == 1)

    assert (stage.placing.count, stage.placing.waiting_for_volumes) == (1, 1)

    volumes.ready.set()
    stage.api.hold.set()
    await stage.placing.finish(timeout_seconds=5)


async def test_a_surprise_with_one_gives_back_what_was_kept_for_the_others() -> None:
    stage = Stage(pods=2)
    stage.placing._volumes = volumes = Volumes("p0")  # type: ignore[assignment]
    keep = volumes.keep

    def surprise(pod: Any, node: str) -> Any:
        if pod.name == "p1":
            raise RuntimeError("what was that")
        return keep(pod, node)

    volumes.keep = surprise  # type: ignore[method-assign]
    with pytest.raises(RuntimeError):
        together(stage)

    assert volumes.released == ["p0"]
    assert stage.on_node() == 0


@NO_VOLUME
async def test_all_places_are_free_at_once_for_whoever_waits_for_them_all(
    problem: str, timeout_seconds: float
) -> None:
    stage = Stage(pods=2)
    stage.placing._volumes = Volumes("p1", problem=problem)  # type: ignore[assignment]

    together(stage, timeout_seconds=timeout_seconds)
    seen = {stage.on_node()}
    async with asyncio.timeout(10):
        while stage.on_node():
            await asyncio.sleep(0)
            seen.add(stage.on_node())

    assert seen == {2, 0}
    await stage.placing.finish(timeout_seconds=5)


async def test_at_the_end_those_that_wait_for_volumes_give_their_places_back() -> None:
    stage = Stage(pods=2)
    volumes = Volumes("p1")
    volumes.stop = lambda: None  # type: ignore[method-assign]
    stage.placing._volumes = volumes  # type: ignore[assignment]

    together(stage)
    await until(lambda: volumes.count == 1)
    await stage.placing.finish(timeout_seconds=0.05)

    assert stage.on_node() == 0
    assert "p1" in volumes.released
