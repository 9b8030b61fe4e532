"""Judges a pod whose bind has an unknown outcome: only its node may pass.

Until the API server says what became of the bind, the pod counts on its node with its allocation. That must
not count against the pod itself; and a bind to another node would be refused, so no other node may pass.
"""

from collections.abc import Sequence

from bayplan.authoring.hooks import filter
from bayplan.authoring.load import Definition
from bayplan.authoring.registry import Policy
from bayplan.authoring.verdict import Reason, Verdict
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.table import NodeTable

UNSETTLED = Reason(
    "pod may yet be bound to another node",
    detail="{node}: the API server has not said",
    helped_by=frozenset({"pods"}),
)


@filter
def unsettled_bind(pod: Pod, nodes: NodeTable, cluster: Snapshot) -> Verdict:
    """Refuse every node but the one that the pod may yet be bound to."""
    going = cluster.unsettled[pod.uid]
    return UNSETTLED.where([name != going for name in nodes.names], node=going)


_RULE = Definition("Bayplan", (("unsettled_bind", unsettled_bind),), None, ()).make()


def settled(
    policies: Sequence[Policy], pod: Pod, cluster: Snapshot | None
) -> tuple[Sequence[Policy], Snapshot | None]:
    """The policies and cluster to judge the pod with: unchanged, unless its bind is unsettled."""
    going = cluster.unsettled.get(pod.uid) if cluster is not None else None
    if cluster is None or going is None:
        return policies, cluster
    return [_RULE, *policies], cluster.without_on({going: {pod.uid}})
