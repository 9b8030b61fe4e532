"""The nudge: who waits for what, who is touched when it changes, and how seldom."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bayplan.client.errors import ApiError, Unreachable
from bayplan.kube.pod import Pod
from bayplan.state import nudge as nudge_module
from bayplan.state.cache import Cache
from bayplan.state.nudge import ANNOTATION, PODS, Nudge, NudgeOptions
from bayplan.testing import make_node, make_pod

PRICE = "source:price"


class Api:
    """Stands in for the API server: writes down who was touched."""

    def __init__(self) -> None:
        self.touched: list[str] = []
        self.notes: list[dict[str, Any]] = []
        self.refusal: ApiError | None = None
        self.failures: list[Exception] = []
        """What the first touches fail with."""

    async def patch(self, path: str, body: dict[str, Any], **_: object) -> bytes:
        self.touched.append(path.rpartition("/")[2])
        self.notes.append(body)
        if self.failures:
            raise self.failures.pop(0)
        if self.refusal is not None:
            raise self.refusal
        return b"{}"


class World:
    """A cluster with pods that wait, and a clock that is moved by hand."""

    def __init__(self, *, interval_seconds: float = 0.0) -> None:
        self.now = 1000.0
        self.sees_at = 0.0
        """From when on what we see is true."""
        self.api = Api()
        self.cache = Cache()
        self.cache.put_node(make_node("n").object)
        options = NudgeOptions(qps=1e6, interval_seconds=interval_seconds)
        self.rests: list[float] = []
        self.nudge = Nudge(
            self.api,  # type: ignore[arg-type]
            self.cache,
            options,
            behind=lambda: self.now < self.sees_at,
            clock=lambda: self.now,
            sleep=self._rest,
        )

    async def _rest(self, seconds: float) -> None:
        self.rests.append(seconds)
        self.now += seconds

    def waits(self, name: str, *topics: str) -> Pod:
        pod = make_pod(name, uid=f"uid-of-{name}")
        self.cache.put_pod(pod)
        self.nudge.refused(pod, frozenset(topics))
        return pod

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.nudge.run())
        yield
        for _ in range(200):
            await asyncio.sleep(0)
        task.cancel()


async def touched_after(world: World, *topics: str) -> list[str]:
    async with world.running():
        for topic in topics:
            world.nudge.changed(topic)
    return world.api.touched


async def test_who_waits_for_it_is_touched() -> None:
    world = World()
    world.waits("for-the-price", PRICE)
    world.waits("for-pods", PODS)
    world.waits("for-anything")

    assert await touched_after(world, PRICE) == ["for-the-price", "for-anything"]
    assert ANNOTATION in world.api.notes[0]["metadata"]["annotations"]
    assert world.api.notes[0]["metadata"]["uid"], "another pod of that name must not be touched"


async def test_who_is_bound_or_gone_is_left_alone() -> None:
    world = World()
    bound = world.waits("bound", PRICE)
    world.cache.assume(bound, "n")
    world.cache.drop_pod(world.waits("gone", PRICE).key)
    world.waits("waits", PRICE)

    assert await touched_after(world, PRICE) == ["waits"]


async def test_ten_changes_are_one_touch() -> None:
    world = World()
    world.waits("waits", PRICE)

    assert await touched_after(world, *[PRICE] * 10) == ["waits"]


async def test_a_touched_pod_is_left_alone_for_a_while() -> None:
    world = World(interval_seconds=10)
    world.waits("waits", PRICE)
    assert await touched_after(world, PRICE) == ["waits"]
    assert world.rests == []
    world.now += 4
    world.waits("waits", PRICE)

    assert await touched_after(world, PRICE) == ["waits", "waits"]

    assert world.rests == [6.0]


@pytest.mark.parametrize(
    ("ago_seconds", "touched"),
    [
        pytest.param(0.5, ["waits"], id="news right after a refusal may be what woke the pod"),
        pytest.param(5.0, [], id="later news wake it in kube-scheduler anyway"),
    ],
)
async def test_news_of_the_watch(ago_seconds: float, touched: list[str]) -> None:
    world = World()
    world.waits("waits", PODS)
    world.now += ago_seconds
    async with world.running():
        world.nudge.news()

    assert world.api.touched == touched


async def test_a_pod_refused_right_after_its_touch_does_not_go_round_in_circles() -> None:
    world = World()
    world.waits("waits", PODS)
    async with world.running():
        world.nudge.news()
    world.now += 0.5
    world.waits("waits", PODS)
    async with world.running():
        world.nudge.news()

    assert world.api.touched == ["waits"]


@pytest.mark.parametrize(
    ("status", "again"),
    [
        pytest.param(404, ["waits"], id="gone: forgotten"),
        pytest.param(409, ["waits"], id="another pod by now: forgotten"),
        pytest.param(403, ["waits", "waits"], id="no right: tried at the next change"),
    ],
)
async def test_a_touch_that_is_refused(status: int, again: list[str]) -> None:
    world = World()
    world.waits("waits", PRICE)
    world.api.refusal = ApiError(status, "no", doing="patching")
    await touched_after(world, PRICE)

    assert await touched_after(world, PRICE) == again


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(ApiError(503, "busy", doing="patching"), id="busy"),
        pytest.param(Unreachable("no answer in 5 s"), id="away"),
    ],
)
async def test_a_touch_that_fails_is_made_up_for_in_the_usual_time(failure: Exception) -> None:
    """The price has fallen and stays there: no other change would ever help the pod."""
    world = World(interval_seconds=10.0)
    world.waits("waits", PRICE)
    world.api.failures = [failure, failure]

    assert await touched_after(world, PRICE) == ["waits"] * 3
    assert world.rests == [10.0, 10.0]


async def test_a_touch_that_fails_while_we_are_behind_is_made_up_for_when_we_are_not() -> None:
    world = World()
    world.waits("waits", PRICE)
    world.api.failures = [Unreachable("no answer in 5 s")]
    world.sees_at = world.now + 60

    assert await touched_after(world, PRICE) == ["waits"] * 2
    assert world.now >= world.sees_at


async def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nudge_module, "_WAITING_LIMIT", 3)
    world = World()
    for number in range(5):
        world.waits(f"p{number}", PRICE)

    assert await touched_after(world, PRICE) == ["p2", "p3", "p4"]


async def test_a_pod_that_rests_does_not_keep_another_one_waiting() -> None:
    world = World(interval_seconds=60)
    woken = asyncio.Event()

    async def rest(seconds: float) -> None:
        world.rests.append(seconds)
        await woken.wait()

    world.nudge._sleep = rest
    world.waits("first", PRICE)
    async with world.running():
        world.nudge.changed(PRICE)
        for _ in range(50):
            await asyncio.sleep(0)
        world.waits("first", PRICE)
        world.nudge.changed(PRICE)
        for _ in range(50):
            await asyncio.sleep(0)
        assert world.api.touched == ["first"], "it is left alone for a while"
        world.waits("second", PRICE)
        world.nudge.changed(PRICE)

    assert world.api.touched == ["first", "second"]


async def test_others_have_their_turn_while_thousands_are_looked_through_that_are_gone() -> None:
    world, turns = World(), 0
    for number in range(2_000):
        world.cache.drop_pod(world.waits(f"gone-{number}", PRICE).key)
    world.waits("waits", PRICE)
    task = asyncio.create_task(world.nudge.run())
    await asyncio.sleep(0)

    world.nudge.changed(PRICE)
    while not world.api.touched:
        turns += 1
        await asyncio.sleep(0)
    task.cancel()

    assert world.api.touched == ["waits"]
    assert turns >= 2_000


async def test_who_was_touched_while_it_was_put_in_line_again_is_left_alone() -> None:
    world = World(interval_seconds=10)
    world.waits("waits", PRICE)
    patch = world.api.patch

    async def changes_meanwhile(path: str, body: dict[str, Any], **more: object) -> bytes:
        world.nudge.changed(PRICE)
        return await patch(path, body, **more)

    world.api.patch = changes_meanwhile  # type: ignore[method-assign]
    async with world.running():
        world.nudge.changed(PRICE)
        while len(world.api.touched) < 2:  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0)

    assert world.rests[0] == 10


async def test_who_was_refused_while_we_were_behind_is_touched_when_we_are_not() -> None:
    """A cluster that we see again; for kube-scheduler nothing has happened."""
    world = World()
    world.waits("before", PODS)
    world.sees_at = 1030.0
    world.waits("meanwhile", PODS)
    world.waits("so-too", PRICE)

    async with world.running():
        assert world.api.touched == []

    assert world.api.touched == ["meanwhile", "so-too"]
    assert world.now >= world.sees_at


async def test_who_was_refused_while_we_were_behind_is_touched_once() -> None:
    world = World()
    world.sees_at = 1030.0
    pod = world.waits("waits", PODS)
    async with world.running():
        pass
    world.nudge.refused(pod, {PODS})
    async with world.running():
        pass

    assert world.api.touched == ["waits"]


async def test_a_pod_that_was_never_in_view_is_touched_and_not_forgotten() -> None:
    """kube-scheduler asks about it, so it is there: it is our view that lacks it."""
    world = World()
    pod = make_pod("unseen", uid="uid-of-unseen")
    world.nudge.refused(pod, {PODS})

    assert await touched_after(world, PODS) == ["unseen"]
    assert await touched_after(world, PODS) == ["unseen", "unseen"]


async def test_a_pod_that_was_in_view_and_is_not_any_more_is_forgotten() -> None:
    world = World()
    pod = make_pod("gone", uid="uid-of-gone")
    world.nudge.refused(pod, {PODS})
    world.cache.put_pod(pod)
    assert await touched_after(world, PODS) == ["gone"]
    world.cache.drop_pod(pod.key)

    assert await touched_after(world, PODS) == ["gone"]


async def test_after_pods_were_listed_again_everybody_who_waits_is_touched() -> None:
    """However long ago it was refused, and whatever it waits for: the view may have been wrong."""
    world = World()
    world.waits("for-the-price", PRICE)
    world.waits("for-pods", PODS)
    world.now += 600

    async with world.running():
        world.nudge.relisted()

    assert sorted(world.api.touched) == ["for-pods", "for-the-price"]
