"""Which nodes are kept of those that passed, and whose turn it is when a pod comes again."""

import hashlib
import random
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

import bayplan
from bayplan import Reason
from bayplan.authoring.hooks import HOOK
from bayplan.authoring.registry import Hook, Policy
from bayplan.engine.cycle import Question, filter_nodes, score_nodes
from bayplan.engine.decision import Decision
from bayplan.engine.guard import Attempt
from bayplan.engine.keep import Turns, best, filter_and_keep
from bayplan.testing import make_cluster, make_pod

NODES = ["refused", "worst", "middle", "good", "better", "best"]
CLUSTER = make_cluster(NODES)
POD = make_pod("p", uid="uid-of-p")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@bayplan.filter
def not_refused(pod: Any, nodes: Any) -> Any:
    return Reason("refused").where([name == "refused" for name in nodes.names])


@bayplan.score
def by_place(pod: Any, nodes: Any) -> Any:
    return [NODES.index(name) for name in nodes.names]


@bayplan.score(best="low")
def the_other_way(pod: Any, nodes: Any) -> Any:
    return [NODES.index(name) for name in nodes.names]


@bayplan.score
def breaks(pod: Any, nodes: Any) -> Any:
    raise ValueError("no such thing")


def policy(*functions: Any, weight: float = 1.0, shadow: bool = False, failure: Any = "Fail") -> Policy:
    hooks = tuple(Hook(f.__name__, f.__name__, getattr(f, HOOK), f) for f in functions)
    return Policy(functions[0].__name__, hooks, weight=weight, shadow=shadow, failure_policy=failure)


def keep(
    *policies: Policy, count: int, turns: Turns | None = None, attempt: Attempt | None = None, pod: Any = POD
) -> tuple[Decision, Decision | None]:
    question = Question(pod, CLUSTER.nodes, CLUSTER, NOW)
    return filter_and_keep(policies, question, attempt or Attempt(), keep=count, turns=turns or Turns())


def kept(decision: Decision | None) -> list[str]:
    assert decision is not None, "nothing was cut"
    assert decision.kept is not None
    return [decision.nodes.names[row] for row in decision.kept.tolist()]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_the_best_of_those_that_passed_are_kept_the_best_first(count: int) -> None:
    filtered, cut = keep(policy(not_refused, by_place), count=count)

    assert kept(cut) == NODES[:0:-1][:count]
    assert filtered.passed_names == NODES[1:]


@pytest.mark.parametrize("count", [5, 6, 1000])
def test_nothing_is_cut_and_nobody_is_asked_for_scores_where_no_more_nodes_pass(count: int) -> None:
    filtered, cut = keep(policy(not_refused, breaks), count=count)

    assert cut is None
    assert filtered.passed_names == NODES[1:]
    assert not filtered.failures


def test_scores_are_those_that_prioritize_would_give_over_the_nodes_that_passed() -> None:
    policies = [policy(not_refused, by_place, weight=3.0), policy(the_other_way)]
    _, cut = keep(*policies, count=1)
    passed = CLUSTER.nodes.take(np.arange(1, len(NODES)))
    asked = score_nodes(policies, Question(POD, passed, CLUSTER, NOW))

    assert cut is not None
    assert asked.total is not None
    np.testing.assert_array_equal(cut.total, asked.total)
    assert kept(cut) == ["best"]


def test_a_score_that_fails_has_no_opinion_and_the_others_decide() -> None:
    filtered, cut = keep(policy(not_refused), policy(breaks), policy(by_place), count=1)

    assert kept(cut) == ["best"]
    assert not filtered.error
    assert cut is not None
    assert "no such thing" in cut.error


def test_without_scores_each_pod_gets_a_node_of_its_own_and_the_same_one_each_time() -> None:
    first = {
        uid: kept(keep(policy(not_refused), count=1, pod=make_pod("p", uid=uid))[1]) for uid in _uids(400)
    }
    again = {
        uid: kept(keep(policy(not_refused), count=1, pod=make_pod("p", uid=uid))[1]) for uid in _uids(400)
    }

    assert first == again
    counts = Counter(node for nodes in first.values() for node in nodes)
    assert set(counts) == set(NODES[1:])
    assert min(counts.values()) > 40, "400 pods over 5 nodes: 80 each, give or take"


def test_equals_do_not_depend_on_the_order_in_which_nodes_are_sent() -> None:
    names = [f"node-{number}" for number in range(50)]
    found = set()
    for seed in range(5):
        order = names.copy()
        random.Random(seed).shuffle(order)
        nodes = make_cluster(order).nodes
        found.add(nodes.names[int(best(np.full(50, 7.0), nodes, "some-uid", keep=1)[0])])

    assert len(found) == 1


def test_many_pods_are_spread_evenly_over_equals() -> None:
    nodes = make_cluster([f"ip-10-0-0-{number}" for number in range(20)]).nodes
    chosen = [int(best(np.full(20, 7.0), nodes, f"uid-{pod}", keep=1)[0]) for pod in range(4000)]

    counts = Counter(chosen)
    assert len(counts) == 20
    assert all(140 < count < 260 for count in counts.values()), "200 each, with a deviation of 14"


def test_which_of_equals_is_kept_is_the_same_in_every_process() -> None:
    nodes = make_cluster([f"node-{number}" for number in range(8)]).nodes

    chosen = [nodes.names[int(best(None, nodes, uid, keep=1)[0])] for uid in "abcdefgh"]

    assert chosen == [f"node-{number}" for number in (2, 2, 2, 1, 7, 6, 4, 0)]


def test_the_first_turn_is_the_beginning_of_the_order_that_later_turns_go_on_with() -> None:
    for seed in range(200):
        dice = random.Random(seed)
        count, keep_ = dice.randint(2, 40), dice.randint(1, 39)
        if keep_ >= count:
            continue
        nodes = make_cluster([f"node-{number}" for number in range(count)]).nodes
        total = np.array([dice.choice([0.0, 10.0, 50.0, 99.5]) for _ in range(count)])
        # One turn for every node in the end leads to the same as the first: the order is a circle.
        first = best(total, nodes, f"uid-{seed}", keep=keep_)
        round_again = best(total, nodes, f"uid-{seed}", keep=keep_, turn=count)

        assert sorted(first.tolist()) == sorted(round_again.tolist())
        assert total[first].tolist() == sorted(total, reverse=True)[:keep_]


def test_each_turn_keeps_the_next_ones_and_after_the_last_the_first() -> None:
    turns, seen = Turns(), []
    for _ in range(6):
        seen += kept(keep(policy(not_refused, by_place), count=1, turns=turns)[1])
        turns.told(POD.uid)

    assert seen == ["best", "better", "good", "middle", "worst", "best"]


def test_a_turn_of_several_has_none_of_those_before_it() -> None:
    turns = Turns()
    first = kept(keep(policy(not_refused, by_place), count=2, turns=turns)[1])
    turns.told(POD.uid)
    second = kept(keep(policy(not_refused, by_place), count=2, turns=turns)[1])

    assert (first, second) == (["best", "better"], ["good", "middle"])


def test_asking_again_without_telling_is_no_turn() -> None:
    turns = Turns()
    for _ in range(3):
        assert kept(keep(policy(not_refused, by_place), count=1, turns=turns)[1]) == ["best"]


def test_an_attempt_that_knows_its_turn_does_not_look_it_up() -> None:
    turns = Turns()
    turns.told(POD.uid)

    _, cut = keep(policy(not_refused, by_place), count=1, turns=turns, attempt=Attempt(turn=3))

    assert kept(cut) == ["middle"]


def test_shadow_policies_alone_cut_nothing() -> None:
    filtered, cut = keep(policy(not_refused, by_place, shadow=True), count=1)

    assert cut is None
    assert filtered.passed_names == NODES


def test_a_shadow_score_does_not_choose() -> None:
    _, cut = keep(policy(not_refused, by_place), policy(the_other_way, weight=9.0, shadow=True), count=1)

    assert kept(cut) == ["best"]


def test_a_filter_that_fails_is_the_same_failure_and_cuts_nothing() -> None:
    @bayplan.filter
    def broken(pod: Any, nodes: Any) -> Any:
        raise ValueError("no such thing")

    filtered, cut = keep(policy(broken, by_place), count=1)

    assert cut is None
    assert filtered.error == filter_nodes([policy(broken)], Question(POD, CLUSTER.nodes, CLUSTER, NOW)).error


def test_pods_that_came_long_ago_are_forgotten_and_those_that_come_again_are_not() -> None:
    turns = Turns(limit=3)
    for uid in ("again", "a", "b", "again", "c"):
        turns.told(uid)

    assert len(turns) == 3
    assert {uid: turns.of(uid) for uid in ("again", "a", "b", "c")} == {"again": 2, "a": 0, "b": 1, "c": 1}


def test_a_pod_that_was_bound_is_forgotten_and_one_without_a_uid_is_never_known() -> None:
    turns = Turns()
    turns.told("bound")
    turns.told("")
    turns.forget("bound")
    turns.forget("never heard of")

    assert len(turns) == 0


def _uids(count: int) -> list[str]:
    return [hashlib.md5(str(number).encode()).hexdigest() for number in range(count)]


@pytest.mark.parametrize("equals", [2, 13, 32, 33, 200])
def test_among_few_equals_as_among_many_the_first_of_the_whole_order_is_chosen(equals: int) -> None:
    nodes = make_cluster([f"node-{number}" for number in range(300)]).nodes
    dice = random.Random(equals)
    total = np.zeros(300)
    total[dice.sample(range(300), equals)] = 50.0
    for number in range(20):
        uid = f"uid-{number}"

        first = best(total, nodes, uid, keep=1)

        # The turn that comes after all others is the first one again, and puts every node in order.
        assert first.tolist() == best(total, nodes, uid, keep=1, turn=300).tolist()
