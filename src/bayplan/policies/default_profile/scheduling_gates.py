"""SchedulingGates: a pod that has gates waits until the last of them is taken away.

Filter   refuses the pod, whatever the node, in the words of its PodScheduled condition.
Reads    ``spec.schedulingGates``.
"""

import bayplan
from bayplan import NodeTable, Pod, Reason

GATED = Reason(
    "Scheduling is blocked due to non-empty scheduling gates", of_pod=True, helped_by=frozenset({"pod"})
)


@bayplan.policy
class SchedulingGates:
    """A pod that has gates waits."""

    # kube-scheduler does not even queue such a pod: no other rule has a word on it.
    @bayplan.filter(first=True, reads="node")
    def is_open(self, pod: Pod, nodes: NodeTable) -> Reason | None:  # noqa: ARG002 - a rule about all
        """Refuse a pod that has a gate."""
        return GATED if pod.gated else None
