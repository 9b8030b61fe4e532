"""Filter and score at once, and the sentence that kube-scheduler would write."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

import bayplan
from bayplan import NodeTable, Reason, Verdict
from bayplan.authoring.hooks import HOOK
from bayplan.authoring.registry import Hook, Policy
from bayplan.engine.choose import Choice, choose
from bayplan.testing import make_cluster, make_node, make_pod

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
CLUSTER = make_cluster(
    [make_node("small", cpu=1, memory="1Gi"), make_node("middle", cpu=2), make_node("large", cpu=4)]
)
CPU, BOTH = Reason("Insufficient cpu"), Reason("Insufficient cpu", also=("Insufficient memory",))
GONE = Reason('persistentvolumeclaim "data" not found', of_pod=True)
BUSY = Reason("claim in use", of_pod=True, preemptible=True)


def policy(*functions: Callable[..., Any], weight: float = 1.0) -> Policy:
    hooks = tuple(Hook("policy", f.__name__, getattr(f, HOOK), f) for f in functions)
    return Policy("policy", hooks, weight)


def chosen(*policies: Policy) -> Choice:
    return choose(policies, make_pod(cpu=1), CLUSTER, now=NOON)


@bayplan.filter
def not_small(nodes: NodeTable) -> Verdict:
    return CPU.where(nodes["cpu.allocatable"] < 2000)


@bayplan.filter
def nowhere(nodes: NodeTable) -> Verdict:
    return BOTH.where(nodes["memory.allocatable"] < 2**31) | CPU.where(nodes["cpu.allocatable"] > 0)


@bayplan.score(range=(0, 100))
def by_size(nodes: NodeTable) -> Any:
    return nodes["cpu.allocatable"] / 40


def test_the_best_is_among_those_that_passed() -> None:
    choice = chosen(policy(not_small, by_size))

    assert (choice.feasible, choice.best, choice.message) == (["middle", "large"], ["large"], "")


def test_scores_are_of_the_nodes_that_passed() -> None:
    @bayplan.score
    def stretched(nodes: NodeTable) -> Any:
        assert list(nodes.names) == ["middle", "large"]
        return nodes["cpu.allocatable"]

    choice = chosen(policy(not_small, stretched))

    assert choice.scored is not None
    assert choice.scored.total is not None
    assert choice.scored.total.tolist() == [0, 100]


def test_equals_are_all_best() -> None:
    # 3 x 7 + 1, 3 x 6 + 4 and 3 x 5 + 7: floats that are rounded on the way would tell them apart.
    @bayplan.score(range=(0, 100))
    def first(nodes: NodeTable) -> Any:
        return [7, 6, 5]

    @bayplan.score(range=(0, 100))
    def second(nodes: NodeTable) -> Any:
        return [1, 4, 7]

    choice = choose([policy(first, weight=3), policy(second)], make_pod(), CLUSTER, now=NOON)

    assert choice.best == ["small", "middle", "large"]


def test_one_node_is_not_scored() -> None:
    @bayplan.filter
    def only_large(nodes: NodeTable) -> Verdict:
        return CPU.where(nodes["cpu.allocatable"] < 4000)

    choice = chosen(policy(only_large, by_size))

    assert (choice.best, choice.scored) == (["large"], None)


def test_each_reason_is_counted_and_sorted_as_text() -> None:
    choice = chosen(policy(nowhere))

    assert choice.message == "0/3 nodes are available: 1 Insufficient memory, 3 Insufficient cpu."


def test_what_is_wrong_with_the_pod_is_told_once() -> None:
    @bayplan.filter(first=True)
    def claims(nodes: NodeTable) -> Reason:
        return GONE

    choice = chosen(policy(nowhere), policy(claims))

    assert choice.message == '0/3 nodes are available: persistentvolumeclaim "data" not found.'


def test_what_no_eviction_can_change_is_told_before_what_it_can() -> None:
    @bayplan.filter(first=True)
    def in_use(nodes: NodeTable) -> Reason:
        return BUSY

    @bayplan.filter(first=True)
    def gone(nodes: NodeTable) -> Reason:
        return GONE

    assert chosen(policy(in_use), policy(gone)).message.endswith('"data" not found.')


def test_a_first_filter_has_the_first_word() -> None:
    @bayplan.filter(first=True)
    def by_name(nodes: NodeTable) -> Verdict:
        return Reason("other name").where(nodes["cpu.allocatable"] < 4000)

    choice = chosen(policy(nowhere), policy(by_name))

    assert choice.message == "0/3 nodes are available: 1 Insufficient cpu, 2 other name."


def test_a_policy_that_fails_leaves_no_node() -> None:
    @bayplan.filter
    def broken(nodes: NodeTable) -> None:
        raise ZeroDivisionError("oops")

    choice = chosen(policy(broken, by_size))

    assert (choice.feasible, choice.best) == ([], [])
    assert choice.message.startswith("0/3 nodes are available: policy 'policy' failed: ")


@pytest.mark.parametrize(
    "weights", [pytest.param((1e300, 1e300), id="huge"), pytest.param((1e-300, 1e-300), id="tiny")]
)
def test_weights_past_all_limits_still_compare(weights: tuple[float, float]) -> None:
    choice = chosen(policy(not_small, by_size, weight=weights[0]), policy(by_size, weight=weights[1]))

    assert choice.best == ["large"]


def test_a_cluster_without_nodes_is_told_as_kube_scheduler_tells_it() -> None:
    choice = choose([policy(nowhere)], make_pod(), make_cluster([]), now=NOON)

    assert choice.message == "no nodes available to schedule pods"
