"""DynamicResources: a pod that has resource claims is refused, since nobody here can judge them.

Filter   refuses the pod, whatever the node, and says so.
Reads    ``spec.resourceClaims``.

This is a limit: kube-scheduler allocates devices to claims (DRA), and that is not done here. For the same
reason an extended resource that a DeviceClass offers is only found where a node's ``allocatable`` has it too.
"""

import bayplan
from bayplan import NodeTable, Pod, Reason

CLAIMS = Reason("Bayplan does not judge resource claims (DRA)", of_pod=True, helped_by=frozenset({"pod"}))


@bayplan.policy
class DynamicResources:
    """A pod that has resource claims is refused."""

    @bayplan.filter(first=True, reads="node")
    def has_no_claims(self, pod: Pod, nodes: NodeTable) -> Reason | None:  # noqa: ARG002 - a rule about all
        """Refuse a pod with claims: a node without its devices would be worse than none."""
        return CLAIMS if pod.spec is not None and pod.spec.resource_claims else None
