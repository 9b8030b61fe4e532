"""NodeUnschedulable: a cordoned node gets only pods that tolerate it.

Filter   rejects nodes with ``spec.unschedulable``.
Reads    that flag; the pod's tolerations of ``node.kubernetes.io/unschedulable``.
"""

import bayplan
from bayplan import NodeTable, Pod, Reason, Taint, Verdict

CORDONED = Reason("node(s) were unschedulable", helped_by=frozenset({"nodes"}))
_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


@bayplan.policy
class NodeUnschedulable:
    """A cordoned node gets only pods that tolerate it."""

    @bayplan.filter(reads="node")
    def is_open(self, pod: Pod, nodes: NodeTable) -> Verdict | None:
        """Refuse cordoned nodes, unless the pod tolerates the taint that stands for it."""
        cordoned = nodes["unschedulable"]
        if not cordoned.any() or pod.tolerates(_TAINT):
            return None
        return CORDONED.where(cordoned)
