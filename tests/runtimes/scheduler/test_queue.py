"""Who is next: by priority, after a pause that doubles, when something happens that may help."""

from collections.abc import Iterable
from typing import get_args

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bayplan import Pod
from bayplan.runtimes.scheduler.queue import Place, PodQueue, Waiting
from bayplan.testing import make_pod

PODS, NODES = frozenset({"pods"}), frozenset({"nodes"})


class Clock:
    """Time that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def queue(clock: Clock | None = None) -> PodQueue:
    return PodQueue(clock=clock or Clock())


def names(found: Iterable[Waiting | None]) -> list[str]:
    return [waiting.pod.name for waiting in found if waiting is not None]


def taken(waiting: PodQueue) -> Waiting:
    found = waiting.take()
    assert found is not None
    return found


def test_the_highest_priority_is_next_and_then_who_came_first() -> None:
    waiting = queue()
    for name, priority in (("first", 0), ("second", 0), ("urgent", 10)):
        waiting.put(make_pod(name, priority=priority))

    assert names([waiting.take() for _ in range(4)]) == ["urgent", "first", "second"]


def test_a_refused_pod_waits_for_news_that_may_help() -> None:
    clock = Clock()
    waiting = queue(clock)
    waiting.put(make_pod("full"))
    waiting.refused(taken(waiting), helped_by=PODS)
    clock.now += 60

    assert waiting.tell(NODES) == 0
    assert waiting.take() is None
    assert waiting.tell(PODS) == 1
    assert taken(waiting).attempts == 2


def test_news_within_the_pause_makes_it_ready_after_the_pause() -> None:
    clock = Clock()
    waiting = queue(clock)
    waiting.put(make_pod("full"))
    waiting.refused(taken(waiting), helped_by=PODS)
    waiting.tell(PODS)

    assert (waiting.take(), waiting.next_seconds()) == (None, 1.0)
    clock.now += 1
    assert taken(waiting).pod.name == "full"


def test_the_pause_doubles_up_to_ten_seconds() -> None:
    clock = Clock()
    waiting = queue(clock)
    waiting.put(make_pod("full"))
    pauses = []
    for _ in range(6):
        waiting.failed(taken(waiting))
        pauses.append(waiting.next_seconds())
        clock.now += pauses[-1]

    assert pauses == [1, 2, 4, 8, 10, 10]


def test_news_that_comes_while_it_is_judged_is_not_lost() -> None:
    clock = Clock()
    waiting = queue(clock)
    waiting.put(make_pod("full"))
    judged = taken(waiting)
    waiting.tell(PODS)
    waiting.refused(judged, helped_by=PODS)

    assert waiting.count("backoff") == 1
    clock.now += 1
    assert taken(waiting) is judged


def test_old_news_is_no_news() -> None:
    waiting = queue()
    waiting.put(make_pod("full"))
    waiting.tell(PODS)
    waiting.refused(taken(waiting), helped_by=PODS)

    assert waiting.count("unschedulable") == 1


def test_a_refusal_that_does_not_say_what_helps_is_helped_by_anything() -> None:
    waiting = queue()
    waiting.put(make_pod("full"))
    waiting.refused(taken(waiting), helped_by=frozenset())

    assert waiting.tell(frozenset({"Service"})) == 1


def test_a_gated_pod_is_not_judged_until_its_gates_are_gone() -> None:
    waiting = queue()
    gated = make_pod("gated", uid="g", spec={"schedulingGates": [{"name": "quota"}]})
    waiting.put(gated)
    assert (waiting.take(), waiting.count("gated")) == (None, 1)

    waiting.put(make_pod("gated", uid="g"))
    assert taken(waiting).pod.name == "gated"


def test_a_pod_that_is_gone_while_it_is_judged_does_not_come_back() -> None:
    waiting = queue()
    waiting.put(make_pod("gone", uid="u"))
    judged = taken(waiting)
    waiting.drop("u")
    waiting.failed(judged)
    waiting.refused(judged, helped_by=PODS)

    assert (len(waiting), waiting.take()) == (0, None)


def test_a_pod_that_was_changed_is_tried_again() -> None:
    clock = Clock()
    waiting = queue(clock)
    waiting.put(make_pod("pod", uid="u", cpu=8))
    waiting.refused(taken(waiting), helped_by=NODES)
    clock.now += 1

    waiting.put(make_pod("pod", uid="u", cpu=1))

    assert taken(waiting).pod.cpu_milli == 1000


def test_a_pod_whose_status_alone_changed_is_not_tried_again() -> None:
    clock = Clock()
    waiting = queue(clock)
    pod = make_pod("pod", uid="u")
    waiting.put(pod)
    waiting.refused(taken(waiting), helped_by=NODES)
    clock.now += 1

    assert pod.metadata is not None
    waiting.put(
        msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, resource_version="2"))
    )

    assert waiting.take() is None


@pytest.mark.parametrize(
    "seconds", [pytest.param(299, id="not yet"), pytest.param(330, id="after five minutes")]
)
def test_a_pod_that_waits_far_too_long_is_tried_without_news(seconds: float) -> None:
    clock = Clock()
    waiting = queue(clock)
    waiting.put(make_pod("forgotten"))
    waiting.refused(taken(waiting), helped_by=NODES)
    clock.now += seconds

    assert (waiting.take() is not None) == (seconds > 300)


class Chaos(RuleBasedStateMachine):
    """Whatever happens, a pod is in exactly one place, and none is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.queue = PodQueue(clock=self.clock)
        self.pods: dict[str, Pod] = {}
        self.judged: list[Waiting] = []

    @rule(number=st.integers(0, 5), priority=st.integers(0, 3), gated=st.booleans())
    def put(self, number: int, priority: int, gated: bool) -> None:
        spec = {"schedulingGates": [{"name": "g"}]} if gated and str(number) not in self.pods else {}
        pod = make_pod(f"p{number}", uid=str(number), priority=priority, spec=spec)
        self.pods[pod.uid] = pod
        self.queue.put(pod)

    @rule(number=st.integers(0, 5))
    def drop(self, number: int) -> None:
        self.pods.pop(str(number), None)
        self.queue.drop(str(number))

    @rule()
    def take(self) -> None:
        found = self.queue.take()
        if found is not None:
            ready = [w for w in self.judged if w.pod.uid == found.pod.uid]
            assert not [w for w in ready if w is found], "judged twice at once"
            self.judged.append(found)

    @precondition(lambda self: self.judged)
    @rule(helped=st.sampled_from([PODS, NODES, frozenset()]), fails=st.booleans())
    def answer(self, helped: frozenset[str], fails: bool) -> None:
        waiting = self.judged.pop(0)
        if fails:
            self.queue.failed(waiting)
        else:
            self.queue.refused(waiting, helped_by=helped)

    @rule(news=st.sampled_from([PODS, NODES]))
    def tell(self, news: frozenset[str]) -> None:
        self.queue.tell(news)

    @rule(seconds=st.sampled_from([0.5, 1.0, 10.0, 400.0]))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @invariant()
    def nobody_is_lost(self) -> None:
        places: tuple[Place, ...] = get_args(Place)
        assert sum(self.queue.count(place) for place in places) == len(self.queue) == len(self.pods)

    def teardown(self) -> None:
        """In the end, with time and news, everybody is judged again who is not gated."""
        for waiting in self.judged:
            self.queue.failed(waiting)
        self.clock.now += 1000
        found = set(names(iter(self.queue.take, None)))
        assert found == {pod.name for pod in self.pods.values() if not pod.gated}


Chaos.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestChaos = Chaos.TestCase


def test_a_pod_whose_bind_is_under_way_keeps_no_news() -> None:
    waiting = queue()
    waiting.put(make_pod("a"))
    judged = taken(waiting)
    waiting.tell(PODS)

    waiting.placed(judged)

    assert waiting.count("placed") == 1
    assert not waiting._news
    waiting.failed(judged)
    assert waiting.count("backoff") == 1
