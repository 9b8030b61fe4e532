"""Policies about victims: who is protected never leaves, and of the others those who cost least do."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

import bayplan
from bayplan import NodeTable, Pod, Reason, Verdict
from bayplan.authoring.load import Definition
from bayplan.authoring.registry import Policy
from bayplan.engine.choose import choose
from bayplan.engine.make_room import Room, make_room
from bayplan.kube.workloads import PodDisruptionBudget
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.objects import Objects
from bayplan.testing import make_node, make_pod

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
FULL = Reason("Insufficient cpu", preemptible=True)


@bayplan.filter
def fits(pod: Pod, nodes: NodeTable) -> Verdict:
    return FULL.where(nodes["cpu.free"] < pod.cpu_milli)


@bayplan.protect
def keep(victim: Pod) -> bool:
    return victim.labels.get("keep") == "yes"


@bayplan.victims
def by_label(victims: Sequence[Pod]) -> int | None:
    prices = [victim.labels.get("price") for victim in victims]
    return None if None in prices else sum(int(price) for price in prices if price)


@bayplan.victims
def fewest(victims: Sequence[Pod]) -> int:
    return len(victims)


@bayplan.victims
def at_most_one(victims: Sequence[Pod]) -> str | None:
    return "more than one would have to go" if len(victims) > 1 else None


@bayplan.victims
def fails(victims: Sequence[Pod]) -> int:
    raise ValueError("no idea")


@bayplan.protect
def fails_too(victim: Pod) -> bool:
    raise ValueError("no idea")


def own(*hooks: Callable[..., Any]) -> list[Policy]:
    return [Definition(hook.__name__, ((hook.__name__, hook),), None, ()).make() for hook in (fits, *hooks)]


def running(name: str, node: str, *, cpu: int = 4, priority: int = 0, **labels: str) -> Pod:
    return make_pod(name, uid=name, cpu=cpu, priority=priority, node=node, labels=labels)


def budget(allowed: int) -> PodDisruptionBudget:
    content = {
        "metadata": {"name": "db", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": allowed},
    }
    return msgspec.convert(content, PodDisruptionBudget)


def room(
    policies: Sequence[Policy],
    pods: Sequence[Pod],
    *,
    cpu: int = 4,
    budgets: Sequence[PodDisruptionBudget] = (),
    candidates: int | None = None,
) -> Room:
    nodes = [make_node(name, cpu=4).object for name in sorted({pod.node_name for pod in pods})]
    cluster = Snapshot.build(nodes, pods, Objects.of([("PodDisruptionBudget", one) for one in budgets]))
    pod = make_pod("incoming", uid="any", cpu=cpu, priority=100)
    refused = choose(policies, pod, cluster, now=NOON).filtered
    return make_room(policies, cluster, refused, now=NOON, candidates=candidates)


def victims(found: Room) -> dict[str, list[str]]:
    return {eviction.node: [pod.name for pod in eviction.victims] for eviction in found.best}


def test_a_protected_pod_stays_and_another_of_its_node_leaves() -> None:
    there = [running("kept", "a", cpu=2, keep="yes"), running("other", "a", cpu=2, priority=50)]

    assert victims(room(own(), there, cpu=2)) == {"a": ["kept"]}
    assert victims(room(own(keep), there, cpu=2)) == {"a": ["other"]}


def test_a_protected_pod_uses_up_no_budget() -> None:
    there = [
        running("kept", "a", cpu=2, priority=50, app="db", keep="yes"),
        running("other", "a", cpu=2, app="db"),
    ]

    (eviction,) = room(own(keep), there, cpu=2, budgets=[budget(1)]).evictions

    assert ([pod.name for pod in eviction.victims], eviction.violations) == (["other"], 0)


def test_why_nobody_is_evicted_tells_of_those_who_are_protected() -> None:
    there = [running("kept", "a", cpu=2, keep="yes"), running("other", "a", cpu=2)]
    there += [running("only", "b", keep="yes")]

    assert room(own(keep), there).message == (
        "preemption: 0/2 nodes are available:"
        " 1 Insufficient cpu, 2 node(s) with pods that are protected by keep."
    )


def test_the_cheapest_leave_though_others_matter_less_to_kube_scheduler() -> None:
    there = [running("a1", "a", price="5"), running("b1", "b", priority=50, price="3")]

    assert victims(room(own(), there)) == {"a": ["a1"]}
    assert victims(room(own(by_label), there)) == {"b": ["b1"]}


def test_what_costs_the_same_is_left_to_the_next_and_at_last_to_kube_scheduler() -> None:
    there = [
        running("a1", "a", cpu=2, price="1"),
        running("a2", "a", cpu=2, price="2"),
        running("b1", "b", priority=50, price="3"),
        running("c1", "c", priority=40, price="3"),
    ]

    assert victims(room(own(by_label, fewest), there)) == {"c": ["c1"]}
    assert victims(room(own(by_label), there)) == {"a": ["a1", "a2"]}


def test_victims_without_a_price_stay_candidates() -> None:
    there = [running("a1", "a"), running("b1", "b", priority=50, price="3"), running("c1", "c", price="4")]

    assert victims(room(own(by_label), there)) == {"a": ["a1"]}


def test_a_budget_comes_before_every_price() -> None:
    there = [running("a1", "a", price="1", app="db"), running("b1", "b", price="9", priority=50)]

    assert victims(room(own(by_label), there, budgets=[budget(0)])) == {"b": ["b1"]}


def test_an_eviction_that_a_policy_refuses_is_none_and_the_search_goes_on() -> None:
    many = [running(f"{node}{n}", node, cpu=1) for node in "abcdefgh" for n in range(4)]
    one = [running("single", "z", priority=50)]

    assert victims(room(own(at_most_one), [*many, *one], candidates=1)) == {"z": ["single"]}
    assert room(own(at_most_one), many[:4]).message == (
        "preemption: 0/1 nodes are available: 1 more than one would have to go."
    )


@pytest.mark.parametrize("hook", [pytest.param(fails, id="victims"), pytest.param(fails_too, id="protect")])
def test_a_hook_that_fails_keeps_everybody_where_it_must_not_fail(hook: Callable[..., Any]) -> None:
    there = [running("a1", "a")]
    policies = own(hook)
    strict, lenient = (
        [policies[0], replace(policies[1], failure_policy=policy)] for policy in ("Fail", "Ignore")
    )

    found = room(strict, there)

    assert not found.evictions
    assert f"1 policy {hook.__name__}" in found.message
    assert "no idea" in found.failures[0].text
    assert victims(room(lenient, there)) == {"a": ["a1"]}
