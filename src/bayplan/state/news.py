"""What a change in the cluster may mean for pods that wait: names of it, or nothing where it means nothing.

Nodes tell of themselves every few seconds, and pods change their status all the time. Only what a rule could
look at is news.
"""

from bayplan.kube.node import NodeObject
from bayplan.kube.pod import Pod

NOTHING: frozenset[str] = frozenset()
PODS = frozenset({"pods"})
"""A pod is gone from a node, or asks for less: there is more room, and one less to keep away from."""
PLACED = frozenset({"placed"})
"""A pod is on a node that was not there before, or has other labels: somebody may want to be near it."""
NODES = frozenset({"nodes"})
"""A node is there, or is different in what pods ask for."""


def of_pod(before: Pod | None, now: Pod | None) -> frozenset[str]:
    """What it means that a pod is now so; ``None`` where it was, or is, not there."""
    was = before if before is not None and before.node_name and not before.finished else None
    is_there = now if now is not None and now.node_name and not now.finished else None
    if was is None:
        return PLACED if is_there is not None else NOTHING
    if is_there is None:
        return PODS
    if was.node_name != is_there.node_name:
        return PODS | PLACED
    news = NOTHING
    if was.labels != is_there.labels or (is_there.terminating and not was.terminating):
        # A pod that is being deleted is not counted where pods are spread.
        news |= PLACED | PODS
    if any(is_there.request(resource) < amount for resource, amount in was.requests.items()):
        news |= PODS
    return news


def of_node(before: NodeObject | None, now: NodeObject | None) -> frozenset[str]:
    """What it means that a node is now so; ``None`` where it was, or is, not there."""
    if before is None or now is None:
        return NODES if before is not now else NOTHING
    same = (
        before.labels == now.labels
        and before.annotations == now.annotations
        and before.taints == now.taints
        and before.unschedulable == now.unschedulable
        and before.ready == now.ready
        and before.allocatable == now.allocatable
        and before.declared_features == now.declared_features
    )
    return NOTHING if same else NODES
