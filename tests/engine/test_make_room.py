"""Who would be evicted: as few as possible, the least important, with budgets kept where that can be."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import msgspec
import numpy as np
import pytest

import bayplan
from bayplan import NodeTable, Pod, Reason, Verdict
from bayplan.authoring.hooks import HOOK
from bayplan.authoring.registry import Hook, Policy
from bayplan.engine.choose import choose
from bayplan.engine.make_room import DEFAULT_PREEMPTION, VICTIMS_LEAVE, Room, make_room
from bayplan.kube.pod import Condition
from bayplan.kube.workloads import PodDisruptionBudget
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.objects import Objects
from bayplan.testing import make_node, make_pod

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
FULL = Reason("Insufficient cpu", preemptible=True)
CORDONED = Reason("node(s) were unschedulable")


@bayplan.filter
def fits(pod: Pod, nodes: NodeTable) -> Verdict:
    return CORDONED.where(nodes["unschedulable"]) | FULL.where(nodes["cpu.free"] < pod.cpu_milli)


POLICIES = [Policy("fit", (Hook("fit", "fits", getattr(fits, HOOK), fits),))]


def running(
    name: str, node: str, *, cpu: int = 1, priority: int = 0, minutes: int = 60, app: str = ""
) -> Pod:
    pod = make_pod(name, cpu=cpu, priority=priority, node=node, labels={"app": app} if app else {})
    start = (NOON - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert pod.status is not None
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, start_time=start))


def budget(app: str, allowed: int) -> PodDisruptionBudget:
    return msgspec.convert(
        {
            "metadata": {"name": app, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": app}}},
            "status": {"disruptionsAllowed": allowed},
        },
        PodDisruptionBudget,
    )


def room(
    pods: Sequence[Pod], *, incoming: Pod | None = None, budgets: Sequence[PodDisruptionBudget] = ()
) -> Room:
    names = sorted({pod.node_name for pod in pods} | {"a", "b"})
    objects = Objects.of([("PodDisruptionBudget", one) for one in budgets])
    nodes = [make_node(name, cpu=4, unschedulable=name == "cordoned").object for name in names]
    cluster = Snapshot.build(nodes, pods, objects)
    pod = incoming or make_pod("incoming", cpu=2, priority=100)
    return make_room(POLICIES, cluster, choose(POLICIES, pod, cluster, now=NOON).filtered, now=NOON)


def victims(found: Room) -> list[tuple[str, list[str]]]:
    return [(eviction.node, [pod.name for pod in eviction.victims]) for eviction in found.best]


def test_as_few_as_possible_leave_and_the_least_important_do() -> None:
    full = [running(f"p{n}", "a", priority=n) for n in range(4)] + [running("big", "b", cpu=4, priority=200)]

    assert victims(room(full)) == [("a", ["p1", "p0"])]


def test_of_two_equals_the_younger_leaves() -> None:
    full = [running("old", "a", cpu=2, minutes=90), running("young", "a", cpu=2, minutes=10)]
    full += [running("big", "b", cpu=4, priority=200)]

    assert victims(room(full)) == [("a", ["young"])]


@pytest.mark.parametrize(
    ("on_b", "best"),
    [
        pytest.param([("b1", 4, 5, 60)], "b", id="a lower highest priority"),
        pytest.param([("b1", 4, 50, 60)], "a", id="a higher highest priority"),
        pytest.param([("b1", 3, 10, 60), ("b2", 1, 10, 60)], "b", id="one that can be let back"),
        pytest.param([("b1", 4, 10, 30)], "b", id="the one that began later"),
        pytest.param([("b1", 4, 10, 90)], "a", id="the one that began earlier"),
    ],
)
def test_the_node_whose_victims_matter_least(on_b: list[tuple[str, int, int, int]], best: str) -> None:
    full = [running("a1", "a", cpu=4, priority=10)]
    full += [running(name, "b", cpu=cpu, priority=p, minutes=m) for name, cpu, p, m in on_b]

    found = room(full, incoming=make_pod("incoming", cpu=3, priority=100))

    assert {eviction.node for eviction in found.evictions} == {"a", "b"}
    assert best in [node for node, _ in victims(found)]


def test_equally_good_nodes_are_all_best() -> None:
    full = [running("a1", "a", cpu=4), running("b1", "b", cpu=4)]

    assert victims(room(full)) == [("a", ["a1"]), ("b", ["b1"])]


def test_a_budget_is_kept_where_another_can_leave() -> None:
    full = [running("covered", "a", cpu=2, minutes=5, app="db"), running("free", "a", cpu=2, minutes=90)]
    full += [running("big", "b", cpu=4, priority=200)]

    found = room(full, budgets=[budget("db", 0)])

    assert victims(found) == [("a", ["free"])]
    assert found.best[0].violations == 0


def test_a_node_with_a_broken_budget_comes_after_one_without() -> None:
    full = [running("covered", "a", cpu=4, app="db"), running("dear", "b", cpu=4, priority=50)]

    found = room(full, budgets=[budget("db", 0)])

    assert victims(found) == [("b", ["dear"])]
    assert sorted((e.node, e.violations) for e in found.evictions) == [("a", 1), ("b", 0)]


def test_a_budget_is_used_up_by_the_first() -> None:
    full = [running(f"db-{n}", "a", cpu=2, app="db") for n in range(2)]
    full += [running("big", "b", cpu=4, priority=200)]

    found = room(full, incoming=make_pod("incoming", cpu=4, priority=100), budgets=[budget("db", 1)])

    assert found.best[0].violations == 1


def test_nobody_of_the_same_priority_leaves() -> None:
    full = [running("a1", "a", cpu=4, priority=100), running("b1", "b", cpu=4, priority=100)]

    found = room(full)

    assert found.evictions == ()
    assert found.message == (
        "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
    )


def test_a_node_without_a_lower_pod_is_passed_over_without_a_look_at_its_pods(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten thousand pods of one priority may wait for room on five thousand full nodes."""
    looked: list[str] = []
    on = Snapshot.pods_on

    def noted(cluster: Snapshot, node: str) -> tuple[Pod, ...]:
        looked.append(node)
        return on(cluster, node)

    monkeypatch.setattr(Snapshot, "pods_on", noted)
    equals = [running(name, name, cpu=4, priority=100) for name in ("a", "b")]

    found = room([*equals, running("low", "c", cpu=2), running("high", "c", cpu=2, priority=200)])

    assert victims(found) == [("c", ["low"])]
    assert set(looked) == {"c"}
    assert room(equals).message == (
        "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
    )


def test_evictions_do_not_help_where_the_node_is_refused_anyway() -> None:
    full = [running("a1", "a", cpu=4, priority=100), running("b1", "b", cpu=4, priority=100)]
    full += [running("c1", "cordoned", cpu=4)]

    assert room(full).message == (
        "preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling,"
        " 2 No preemption victims found for incoming pod."
    )


def test_a_pod_may_refuse_to_evict() -> None:
    incoming = make_pod("incoming", cpu=2, priority=100, spec={"preemptionPolicy": "Never"})

    found = room([running("a1", "a", cpu=4), running("b1", "b", cpu=4)], incoming=incoming)

    assert found.message == "preemption: not eligible due to preemptionPolicy=Never."


def test_too_little_even_once_all_have_left() -> None:
    found = room([running("a1", "a", cpu=4)], incoming=make_pod("incoming", cpu=5, priority=100))

    assert found.message == (
        "preemption: 0/2 nodes are available: 1 Insufficient cpu,"
        " 1 No preemption victims found for incoming pod."
    )


def test_nothing_is_tried_where_nothing_could_help() -> None:
    cluster = Snapshot.build([make_node("cordoned", cpu=4, unschedulable=True).object], [])
    refused = choose(POLICIES, make_pod("incoming", priority=100), cluster, now=NOON).filtered

    assert make_room(POLICIES, cluster, refused, now=NOON).message == (
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )


def test_without_nodes_there_is_nothing_to_say() -> None:
    cluster = Snapshot.build([], [])
    refused = choose(POLICIES, make_pod("incoming", priority=100), cluster, now=NOON).filtered

    assert make_room(POLICIES, cluster, refused, now=NOON) == Room((), "", NOON)


def nominated(node: str) -> Pod:
    pod = make_pod("incoming", cpu=2, priority=100)
    assert pod.status is not None
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, nominated_node_name=node))


def ending(pod: Pod, **condition: str) -> Pod:
    assert pod.metadata is not None
    assert pod.status is not None
    metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp="2026-11-15T12:00:00Z")
    status = msgspec.structs.replace(pod.status, conditions=(Condition(**condition),) if condition else None)
    return msgspec.structs.replace(pod, metadata=metadata, status=status)


def leaving(pod: Pod) -> Pod:
    return ending(pod, type="DisruptionTarget", status="True", reason="PreemptionByScheduler")


def drained(pod: Pod) -> Pod:
    return ending(pod, type="DisruptionTarget", status="True", reason="EvictionByEvictionAPI")


@pytest.mark.parametrize(
    ("on_a", "message"),
    [
        pytest.param(leaving(running("a1", "a", cpu=4)), VICTIMS_LEAVE, id="one is leaving for it"),
        pytest.param(running("a1", "a", cpu=4), "", id="nobody is leaving"),
        pytest.param(leaving(running("a1", "a", cpu=4, priority=100)), "", id="not for it"),
        pytest.param(ending(running("a1", "a", cpu=4)), "", id="one was deleted by somebody"),
        pytest.param(drained(running("a1", "a", cpu=4)), "", id="one was evicted for another reason"),
    ],
)
def test_a_pod_waits_for_those_who_leave_the_node_that_it_was_promised(on_a: Pod, message: str) -> None:
    found = room([on_a, running("b1", "b", cpu=4)], incoming=nominated("a"))

    assert (found.message, found.waits) == (message, bool(message))


@pytest.mark.parametrize(
    ("kept", "told", "waits"),
    [
        pytest.param("a", {"a1"}, True, id="one who was told to leave, and does not end yet"),
        pytest.param("a", {"b1"}, False, id="one who was told to leave another node"),
        pytest.param("b", {"a1"}, False, id="another node is kept"),
    ],
)
def test_a_pod_waits_for_those_who_were_told_to_leave_the_node_that_is_kept(
    kept: str, told: set[str], waits: bool
) -> None:
    pods = [make_pod(f"{node}1", uid=f"{node}1", cpu=4, node=node) for node in ("a", "b")]
    cluster = Snapshot.build([make_node(name, cpu=4).object for name in ("a", "b")], pods)
    refused = choose(POLICIES, make_pod("incoming", cpu=2, priority=100), cluster, now=NOON).filtered

    found = make_room(POLICIES, cluster, refused, now=NOON, kept=kept, told=told)

    assert (found.waits, bool(found.evictions)) == (waits, not waits)


@pytest.mark.parametrize(
    "node",
    [pytest.param("cordoned", id="refused for good"), pytest.param("gone", id="not there any more")],
)
def test_a_pod_does_not_wait_for_a_node_that_it_cannot_have(node: str) -> None:
    full = [running("a1", "a", cpu=4), running("b1", "b", cpu=4, priority=200)]
    full += [leaving(running("c1", "cordoned", cpu=4))]

    assert victims(room(full, incoming=nominated(node))) == [("a", ["a1"])]


@pytest.mark.parametrize(
    ("nodes", "candidates"),
    [
        pytest.param(0, 0, id="none"),
        pytest.param(99, 99, id="all of few"),
        pytest.param(999, 100, id="a hundred"),
        pytest.param(5000, 500, id="a tenth of many"),
    ],
)
def test_as_many_candidates_as_kube_scheduler_looks_for(nodes: int, candidates: int) -> None:
    assert DEFAULT_PREEMPTION.enough(nodes) == candidates


def many(
    *, candidates: int | None = None, uid: str = "any", budgets: Sequence[PodDisruptionBudget] = ()
) -> Room:
    """Two hundred full nodes; on all but one the only victim is covered by a budget."""
    names = [f"node-{number}" for number in range(200)]
    pods = [running(f"on-{name}", name, cpu=4, app="db" if name != "node-7" else "") for name in names]
    objects = Objects.of([("PodDisruptionBudget", one) for one in budgets])
    cluster = Snapshot.build([make_node(name, cpu=4).object for name in names], pods, objects)
    incoming = make_pod("incoming", uid=uid, cpu=2, priority=100)
    refused = choose(POLICIES, incoming, cluster, now=NOON).filtered
    return make_room(POLICIES, cluster, refused, now=NOON, candidates=candidates)


def test_the_search_ends_with_enough_candidates() -> None:
    assert len(many().evictions) == 100
    assert len(many(candidates=3).evictions) == 3
    assert len(many(candidates=1000).evictions) == 200


def test_the_search_goes_on_until_one_breaks_no_budget() -> None:
    assert victims(many(candidates=3, budgets=[budget("db", 0)])) == [("node-7", ["on-node-7"])]


def test_the_same_question_is_searched_in_the_same_nodes() -> None:
    first, second = (many(candidates=3, uid="one"), many(candidates=3, uid="one"))

    assert [e.node for e in first.evictions] == [e.node for e in second.evictions]
    assert [e.node for e in first.evictions] != [e.node for e in many(candidates=3, uid="two").evictions]


@bayplan.filter
def only_where_the_cluster_is_small(pod: Pod, nodes: NodeTable, cluster: Snapshot) -> Verdict:
    """At most two pods in the whole cluster."""
    return FULL.where(np.full(len(nodes), cluster.nodes["pods.requested"].sum() > 2))


@bayplan.filter
def only_where_the_tally_is_small(pod: Pod, nodes: NodeTable) -> Verdict:
    """At most two pods in the whole cluster, counted otherwise."""
    everywhere = nodes.tally.weigh(np.ones(nodes.kinds[1], dtype=np.bool_), 2).sum()
    return FULL.where(np.full(len(nodes), everywhere > 2))


@bayplan.filter
def fails_for_many(pod: Pod, nodes: NodeTable) -> Verdict:
    if len(nodes) > 1:
        raise ValueError("too many at once")
    return FULL.where(nodes["cpu.free"] < 4000)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(only_where_the_cluster_is_small, id="it counts in the cluster"),
        pytest.param(only_where_the_tally_is_small, id="it counts in the tally"),
        pytest.param(fails_for_many, id="it fails when asked about both"),
    ],
)
def test_a_rule_that_looks_around_sees_the_evictions_of_one_node_only(
    function: Callable[..., Verdict],
) -> None:
    policy = Policy("around", (Hook("around", function.__name__, getattr(function, HOOK), function),))
    pods = [running(f"{node}{n}", node, cpu=2) for node in "ab" for n in range(2)]
    cluster = Snapshot.build([make_node(name, cpu=4).object for name in "ab"], pods)
    incoming = make_pod("incoming", cpu=2, priority=100)
    # Refused by somebody who is asked about all nodes without any trouble.
    refused = choose(POLICIES, incoming, cluster, now=NOON).filtered

    found = make_room([*POLICIES, policy], cluster, refused, now=NOON)

    assert {e.node: len(e.victims) for e in found.evictions} == {"a": 2, "b": 2}
