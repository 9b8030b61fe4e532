"""Which topics a change in the cluster belongs to, so that the pods that wait for them are tried again.

Kubelets update nodes every few seconds, and pods change their status all the time. Only a change that a
policy could look at has a topic.
"""

from bayplan.kube.node import NodeObject
from bayplan.kube.pod import Pod

NOTHING: frozenset[str] = frozenset()
PODS = frozenset({"pods"})
"""A pod left a node, or requests less: there is more room, and one pod fewer to keep away from."""
PLACED = frozenset({"placed"})
"""A pod came to a node, or has other labels: a waiting pod may want to be near it."""
NODES = frozenset({"nodes"})
"""A node was added, or changed in something that pods ask for."""


def of_pod(before: Pod | None, now: Pod | None) -> frozenset[str]:
    """The topics of a change of a pod; ``None`` before it was created and after it was deleted."""
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
        # Topology spread does not count pods that are being deleted.
        news |= PLACED | PODS
    if any(is_there.request(resource) < amount for resource, amount in was.requests.items()):
        news |= PODS
    return news


def of_node(before: NodeObject | None, now: NodeObject | None) -> frozenset[str]:
    """The topics of a change of a node; ``None`` before it was created and after it was deleted."""
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
