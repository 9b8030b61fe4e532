"""Who is next: by priority, after a pause that doubles, when something happens that may help."""

from collections.abc import Iterable
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bayplan import Pod
from bayplan.runtimes.scheduler.by_news import TIME
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


def tried_often(waiting: PodQueue, clock: Clock, *, fails: bool = False) -> None:
    """A pod whose pause has become ten seconds, a second after the last attempt; there was news for it."""
    waiting.put(make_pod("often"))
    for _ in range(6):
        one = taken(waiting)
        if fails:
            waiting.failed(one)
        else:
            waiting.refused(one, helped_by=PODS)
            waiting.tell(PODS)
        clock.now += 20
    one = taken(waiting)
    if fails:
        waiting.failed(one)
    else:
        waiting.refused(one, helped_by=PODS)
        waiting.tell(PODS)


def test_where_nobody_else_is_ready_the_first_pause_is_enough() -> None:
    clock = Clock()
    waiting = queue(clock)
    tried_often(waiting, clock)

    assert waiting.early_seconds() == 1.0
    clock.now += 0.9
    assert waiting.take_early() is None
    clock.now += 0.1
    assert waiting.take() is None, "its pause is not over"
    assert names([waiting.take_early()]) == ["often"]
    assert waiting.take_early() is None


def test_a_pod_whose_attempt_went_wrong_pauses_to_the_end() -> None:
    clock = Clock()
    waiting = queue(clock)
    tried_often(waiting, clock, fails=True)
    clock.now += 5

    assert waiting.take_early() is None
    clock.now += 5
    assert names([waiting.take()]) == ["often"]


def test_without_news_nobody_comes_early() -> None:
    clock = Clock()
    waiting = queue(clock)
    waiting.put(make_pod("full"))
    waiting.refused(taken(waiting), helped_by=PODS)
    clock.now += 60

    assert waiting.take_early() is None


def test_a_pod_that_was_tried_for_days_still_pauses_for_ten_seconds() -> None:
    """2.0 ** 1024 is an error, and a pod in a lively cluster is tried that often within three hours."""
    clock = Clock()
    waiting = queue(clock)
    waiting.put(make_pod("full"))
    for _ in range(3000):
        one = taken(waiting)
        waiting.refused(one, helped_by=PODS)
        waiting.tell(PODS)
        clock.now += 10

    assert one.attempts == 3000
    waiting.failed(taken(waiting))
    assert waiting.take() is None
    clock.now += 10
    assert names([waiting.take()]) == ["full"]


def test_where_nobody_takes_pods_those_that_leave_leave_nothing_behind() -> None:
    """As in a scheduler that stands by, while another one places all of them."""
    waiting = queue()
    stays = make_pod("stays", uid="stays")
    waiting.put(stays)
    for number in range(5000):
        pod = make_pod(f"p{number}", uid=f"p{number}")
        waiting.put(pod)
        waiting.drop(pod.uid)

    assert len(waiting._line._ready) <= 1001
    assert names([waiting.take(), waiting.take()]) == ["stays"]


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


def test_a_pod_that_is_gone_is_not_taken_together_with_another() -> None:
    waiting = queue()
    waiting.put(make_pod("gone", uid="gone"))
    gone = waiting.find("gone")
    assert gone is not None
    waiting.drop("gone")

    waiting.take_too(gone)

    assert waiting.count("taken") == 0


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


def asking_queue(clock: Clock | None = None) -> PodQueue:
    """A queue of whose pods policies are asked first."""
    return PodQueue(clock=clock or Clock(), asks=lambda pod: pod.name != "free")


def kept_out(waiting: PodQueue, *, helped_by: frozenset[str] = NODES) -> Waiting:
    """The one pod that there is to ask about is kept out."""
    ((ticket, found),) = waiting.to_ask(10)
    assert waiting.keep_out(found, ticket, why="not now", helped_by=helped_by)
    return found


def round_of(waiting: PodQueue) -> list[str]:
    """Those who are asked about in another round, one by one."""
    waiting.lobby.begin_round()
    return names(found for batch in iter(lambda: waiting.to_ask(1), []) for _, found in batch)


def test_a_pod_is_not_judged_before_policies_let_it_in() -> None:
    waiting = asking_queue()
    calls: list[int] = []
    waiting.on_ask = lambda: calls.append(1)
    waiting.put(make_pod("asked"))
    waiting.put(make_pod("free"))

    assert (names([waiting.take()]), waiting.take()) == (["free"], None)
    assert calls == [1]
    assert (waiting.counts()["active"], sum(waiting.counts().values())) == (1, 1)
    ((ticket, found),) = waiting.to_ask(10)
    assert waiting.to_ask(10) == []
    assert waiting.let_in(found, ticket)
    assert taken(waiting) is found


def test_keys_come_before_priorities_and_who_has_none_counts_by_his_priority() -> None:
    waiting = asking_queue()
    for name in ("second", "first"):
        waiting.put(make_pod(name))
    keys = {"first": ((0, 1),), "second": ((0, 2),)}
    for ticket, found in waiting.to_ask(10):
        waiting.let_in(found, ticket, key=keys[found.pod.name])
    waiting.put(make_pod("free", priority=-1))

    assert names([waiting.take() for _ in range(3)]) == ["first", "free", "second"]


def test_who_is_kept_out_is_asked_about_again_only_when_news_may_help() -> None:
    clock = Clock()
    waiting = asking_queue(clock)
    waiting.put(make_pod("held"))
    held = kept_out(waiting)
    assert waiting.counts()["gated"] == 1

    waiting.tell(PODS)
    assert not waiting.lobby.due
    waiting.tell(NODES)
    assert waiting.lobby.due
    assert waiting.to_ask(10) == [], "not before somebody begins a round"
    waiting.lobby.begin_round()
    ((ticket, found),) = waiting.to_ask(10)
    assert found is held
    clock.now += 7
    waiting.let_in(found, ticket)
    clock.now += 1
    assert waiting.seconds_since(taken(waiting)) == 1, "as with a gate of Kubernetes: since it was let in"


def test_news_that_comes_while_a_pod_is_asked_about_is_not_lost() -> None:
    waiting = asking_queue()
    waiting.put(make_pod("held"))
    ((ticket, found),) = waiting.to_ask(10)
    waiting.tell(NODES)
    waiting.keep_out(found, ticket, why="not now", helped_by=NODES)

    assert round_of(waiting) == ["held"]


@pytest.mark.parametrize(
    ("helped_by", "again"),
    [
        pytest.param(frozenset({"time"}), True, id="who looks at the clock"),
        pytest.param(frozenset({"*", "time"}), True, id="who does not say what he looks at"),
        pytest.param(NODES, False, id="who looks at nodes"),
    ],
)
def test_time_helps_who_asked_for_it(helped_by: frozenset[str], again: bool) -> None:
    waiting = asking_queue()
    waiting.put(make_pod("held"))
    kept_out(waiting, helped_by=helped_by)
    waiting.tell(TIME)

    assert waiting.lobby.due == again


def test_time_wakes_a_refused_pod_only_where_its_refusal_says_so() -> None:
    clock = Clock()
    waiting = queue(clock)
    for name in ("night", "full"):
        waiting.put(make_pod(name))
    for helped_by in (TIME, frozenset({"*"})):
        waiting.refused(taken(waiting), helped_by=helped_by)
    clock.now += 60

    assert waiting.tell(TIME) == 1
    assert names([waiting.take(), waiting.take()]) == ["night"]


def test_a_pod_that_is_changed_while_it_is_kept_out_or_asked_about_is_asked_about_anew() -> None:
    waiting = asking_queue()
    waiting.put(make_pod("pod", uid="u"))
    ((old, found),) = waiting.to_ask(10)
    waiting.put(make_pod("pod", uid="u", labels={"team": "a"}))

    assert not waiting.keep_out(found, old, why="no team", helped_by=NODES), "about a pod that is no more"
    kept_out(waiting)
    waiting.put(make_pod("pod", uid="u", labels={"team": "b"}))
    assert names(found for _, found in waiting.to_ask(10)) == ["pod"]


def test_a_pod_that_is_gone_while_it_is_asked_about_does_not_come_back() -> None:
    waiting = asking_queue()
    waiting.put(make_pod("gone", uid="u"))
    ((ticket, found),) = waiting.to_ask(10)
    waiting.drop("u")

    assert not waiting.let_in(found, ticket)
    assert not waiting.keep_out(found, ticket, why="no", helped_by=NODES)
    assert (len(waiting), waiting.take()) == (0, None)


def test_a_refused_pod_is_asked_about_again_before_it_is_judged_again() -> None:
    clock = Clock()
    waiting = asking_queue(clock)
    waiting.put(make_pod("pod"))
    ((ticket, found),) = waiting.to_ask(10)
    waiting.let_in(found, ticket, key=((0, 1),))
    waiting.refused(taken(waiting), helped_by=PODS)
    clock.now += 60
    waiting.tell(PODS)

    assert waiting.take() is None
    assert names(found for _, found in waiting.to_ask(10)) == ["pod"]


@pytest.mark.parametrize(
    "seconds", [pytest.param(299, id="not yet"), pytest.param(330, id="after five minutes")]
)
def test_who_is_kept_out_far_too_long_is_asked_about_without_news(seconds: float) -> None:
    clock = Clock()
    waiting = asking_queue(clock)
    waiting.put(make_pod("forgotten"))
    kept_out(waiting)
    clock.now += seconds
    waiting.flush()

    assert bool(waiting.to_ask(10)) == (seconds > 300)


def test_ten_thousand_that_are_kept_out_cost_nothing_with_each_piece_of_news() -> None:
    waiting = asking_queue()
    for number in range(10_000):
        waiting.put(make_pod(f"p{number}", uid=str(number)))
    for ticket, found in waiting.to_ask(10_000):
        waiting.keep_out(found, ticket, why="not now", helped_by=NODES)
    moved = {uid: found.ticket for uid, found in waiting._waiting.items()}
    for _ in range(1000):
        waiting.tell(NODES)

    assert {uid: found.ticket for uid, found in waiting._waiting.items()} == moved, "nobody was touched"
    waiting.lobby.begin_round()
    assert not waiting.lobby.due
    assert sum(len(waiting.to_ask(256)) for _ in range(40)) == 10_000, "each once, for all that news"


class Chaos(RuleBasedStateMachine):
    """Whatever happens, a pod is in exactly one place, and none is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.queue = PodQueue(clock=self.clock, asks=lambda pod: int(pod.uid) % 2 == 1)
        self.pods: dict[str, Pod] = {}
        self.judged: list[Waiting] = []
        self.asked: list[tuple[int, Waiting]] = []

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

    @rule()
    def take_early(self) -> None:
        found = self.queue.take_early()
        if found is not None:
            assert found not in self.judged, "judged twice at once"
            self.judged.append(found)

    @precondition(lambda self: self.judged)
    @rule(helped=st.sampled_from([PODS, NODES, frozenset()]), fails=st.booleans())
    def answer(self, helped: frozenset[str], fails: bool) -> None:
        waiting = self.judged.pop(0)
        if fails:
            self.queue.failed(waiting)
        else:
            self.queue.refused(waiting, helped_by=helped)

    @rule(again=st.booleans(), limit=st.integers(1, 3))
    def ask(self, again: bool, limit: int) -> None:
        if again:
            self.queue.lobby.begin_round()
        self.asked += self.queue.to_ask(limit)

    @precondition(lambda self: self.asked)
    @rule(helped=st.sampled_from([PODS, NODES, TIME]), said=st.sampled_from(["in", "out", "later"]))
    def say(self, helped: frozenset[str], said: str) -> None:
        ticket, waiting = self.asked.pop(0)
        if said == "in":
            self.queue.let_in(waiting, ticket, key=((0, ticket % 3),))
        elif said == "out":
            self.queue.keep_out(waiting, ticket, why="no", helped_by=helped)
        else:
            self.queue.ask_later(waiting, ticket)

    @rule(news=st.sampled_from([PODS, NODES, TIME]))
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
        for ticket, waiting in self.asked:
            self.queue.keep_out(waiting, ticket, why="no", helped_by=NODES)
        self.clock.now += 1000
        self.queue.flush()
        for ticket, waiting in self.queue.to_ask(100):
            self.queue.let_in(waiting, ticket)
        found = set(names(iter(self.queue.take, None)))
        assert found == {pod.name for pod in self.pods.values() if not pod.gated}


Chaos.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestChaos = Chaos.TestCase


def test_a_pod_whose_bind_failed_comes_again_after_its_pause() -> None:
    waiting = queue()
    waiting.put(make_pod("a"))
    judged = taken(waiting)
    waiting.tell(PODS)

    waiting.placed(judged)

    assert waiting.count("placed") == 1
    waiting.failed(judged)
    assert waiting.count("backoff") == 1


def test_a_pod_that_waits_for_its_gang_hears_no_news_and_that_was_no_attempt() -> None:
    waiting = queue()
    waiting.put(make_pod("a"))
    waiting.park(taken(waiting))

    assert waiting.tell(PODS | NODES) == 0
    assert waiting.take() is None
    assert waiting.counts()["gang"] == 1
    (found,) = [waiting.find(pod.uid) for pod in waiting.pods()]
    assert found is not None
    assert found.attempts == 0

    waiting.unpark(found)

    assert names([waiting.take()]) == ["a"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"labels": {"bayplan.dev/gang": "b"}}, id="a label"),
        pytest.param({"annotations": {"bayplan.dev/gang": "b"}}, id="an annotation"),
    ],
)
def test_a_pod_that_waits_for_its_gang_comes_when_it_says_something_else(
    change: dict[str, dict[str, str]],
) -> None:
    waiting = queue()
    waiting.put(make_pod("a", uid="a"))
    waiting.park(taken(waiting))
    waiting.put(make_pod("a", uid="a"))
    assert waiting.take() is None

    waiting.put(make_pod("a", uid="a", **change))  # type: ignore[arg-type]

    assert names([waiting.take()]) == ["a"]


def test_a_pod_that_waits_for_its_gang_far_too_long_is_looked_at_anyway() -> None:
    clock = Clock()
    waiting = queue(clock)
    waiting.put(make_pod("a"))
    waiting.park(taken(waiting))
    clock.now += 301

    assert names([waiting.take()]) == ["a"]


def test_one_that_is_taken_with_another_leaves_its_place() -> None:
    waiting = queue()
    for name in ("a", "b"):
        waiting.put(make_pod(name, uid=name))
    taken(waiting)
    other = waiting.find("b")
    assert other is not None

    waiting.take_too(other)

    assert waiting.take() is None
    assert (other.place, other.attempts) == ("taken", 1)


def test_one_that_left_its_pause_does_not_hide_when_the_next_is_ready() -> None:
    clock = Clock()
    waiting = queue(clock)
    for name in ("deleted", "next"):
        waiting.put(make_pod(name, uid=name))
        waiting.failed(taken(waiting))
        clock.now += 0.25
    waiting.drop("deleted")

    assert waiting.next_seconds() == pytest.approx(0.75)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"labels": {"tier": "gold"}}, id="other labels"),
        pytest.param({"annotations": {"example.com/approved": "yes"}}, id="other annotations"),
        pytest.param({"tolerations": [{"operator": "Exists"}]}, id="another spec"),
    ],
)
@pytest.mark.parametrize(
    "judged", [pytest.param(True, id="while it is judged"), pytest.param(False, id="later")]
)
def test_a_pod_that_was_changed_is_tried_again_whenever_that_was(
    change: dict[str, Any], judged: bool
) -> None:
    clock = Clock()
    waiting = queue(clock)
    waiting.put(make_pod("p", uid="p"))
    attempt = taken(waiting)
    if judged:
        waiting.put(make_pod("p", uid="p", **change))
    waiting.refused(attempt, helped_by=NODES)
    if not judged:
        waiting.put(make_pod("p", uid="p", **change))
    clock.now += 60

    assert names([waiting.take()]) == ["p"]


def test_a_change_that_was_looked_at_is_none_any_more() -> None:
    clock = Clock()
    waiting = queue(clock)
    waiting.put(make_pod("p", uid="p"))
    attempt = taken(waiting)
    waiting.put(make_pod("p", uid="p", labels={"tier": "gold"}))
    waiting.refused(attempt, helped_by=NODES)
    clock.now += 60
    waiting.refused(taken(waiting), helped_by=NODES)
    clock.now += 60

    assert waiting.take() is None


def test_who_is_kept_out_is_asked_about_anew_when_its_annotations_are_others() -> None:
    waiting = PodQueue(clock=Clock(), asks=lambda _: True)
    waiting.put(make_pod("p", uid="p"))
    ((ticket, one),) = waiting.to_ask(10)
    waiting.keep_out(one, ticket, why="not approved", helped_by=NODES)

    waiting.put(make_pod("p", uid="p", annotations={"example.com/approved": "yes"}))

    assert names(each for _, each in waiting.to_ask(10)) == ["p"]
