"""Decisions for tests of the journal and of the page, made by the real engine."""

from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

import bayplan
from bayplan import Pod, Reason
from bayplan.authoring.hooks import HOOK
from bayplan.authoring.registry import FailurePolicy, Hook, Policy
from bayplan.authoring.scope import EVERY_POD
from bayplan.engine.cycle import Question, filter_nodes, score_nodes
from bayplan.engine.decision import Decision
from bayplan.engine.entry import Entry
from bayplan.engine.journal import Journal
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.table import NodeTable
from bayplan.testing import make_cluster, make_node, make_pod

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
PRICE = bayplan.Label("example.com/price", float)
TOO_SMALL = Reason("too little CPU", detail="{free} free", helped_by=frozenset({"pods"}))
TOO_FAR = Reason("wrong zone")


@bayplan.filter
def size(pod: Pod, nodes: NodeTable) -> bayplan.Verdict:
    """No node without room."""
    free = nodes["cpu.free"]
    return TOO_SMALL.where(free < pod.cpu_milli, free=free)


@bayplan.filter
def zone(nodes: NodeTable) -> bayplan.Verdict:
    """No node in zone c."""
    return TOO_FAR.where(nodes["zone"] == "c")


@bayplan.score(best="low", weight=2)
def price(nodes: NodeTable) -> NDArray[np.float64]:
    """Cheap nodes first; no opinion of those without a price."""
    prices: NDArray[np.float64] = nodes[PRICE]
    return prices


@bayplan.score
def room(nodes: NodeTable) -> NDArray[np.int64]:
    """Roomy nodes first."""
    free: NDArray[np.int64] = nodes["cpu.free"]
    return free


def made(name: str, *functions: object, failure: FailurePolicy = "Fail") -> Policy:
    """A policy of these hooks."""
    hooks = tuple(Hook(name, f.__name__, getattr(f, HOOK), f) for f in functions)  # type: ignore[attr-defined,arg-type]
    return Policy(name, hooks, 1.0, EVERY_POD, failure)


POLICIES = (made("capacity", size), made("placement", zone), made("cost", price), made("spare", room))


def cluster_of(count: int) -> Snapshot:
    """Nodes in three zones, of four sizes; each fifth has no price."""
    return make_cluster(
        make_node(
            f"node-{number:04}",
            zone="abc"[number % 3],
            cpu=2 ** (number % 4),
            labels={"example.com/price": f"{0.1 + number % 7 / 10:.1f}"} if number % 5 else {},
        )
        for number in range(count)
    )


def ask(cluster: Snapshot, pod: Pod | None = None) -> Question:
    """About a pod that wants two CPUs, and all nodes."""
    return Question(pod or make_pod("web-1", namespace="shop", cpu=2), cluster.nodes, cluster, NOON)


def filtered(cluster: Snapshot, pod: Pod | None = None) -> Decision:
    """What the policies refuse."""
    return filter_nodes(POLICIES, ask(cluster, pod))


def scored(cluster: Snapshot, pod: Pod | None = None) -> Decision:
    """What the policies like."""
    return score_nodes(POLICIES, ask(cluster, pod))


def written(journal: Journal, cluster: Snapshot, *, pods: int = 1, namespace: str = "shop") -> list[Entry]:
    """A filter and a prioritize for each of so many pods."""
    entries = []
    for number in range(1, pods + 1):
        pod = make_pod(f"web-{number}", namespace=namespace, cpu=2, labels={"app": "web"})
        entries.append(journal.write("filter", filtered(cluster, pod), generation=1))
        entries.append(journal.write("prioritize", scored(cluster, pod), generation=1))
    return entries
