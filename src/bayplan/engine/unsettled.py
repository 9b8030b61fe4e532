"""A pod whose bind may yet land: it goes there or nowhere, and is not in its own way.

Until the API server has said what became of a bind, the pod counts on its node with what it got there. That
must not count against itself; and a bind to any other node would be refused, so no other is offered.
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
    """The node that the pod may yet be bound to, and no other."""
    going = cluster.unsettled[pod.uid]
    return UNSETTLED.where([name != going for name in nodes.names], node=going)


_RULE = Definition("Bayplan", (("unsettled_bind", unsettled_bind),), None, ()).make()


def settled(
    policies: Sequence[Policy], pod: Pod, cluster: Snapshot | None
) -> tuple[Sequence[Policy], Snapshot | None]:
    """Policies and cluster to judge the pod with: as they are, unless a bind of it is not settled."""
    going = cluster.unsettled.get(pod.uid) if cluster is not None else None
    if cluster is None or going is None:
        return policies, cluster
    return [_RULE, *policies], cluster.without_on({going: {pod.uid}})
