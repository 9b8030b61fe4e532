"""NodeName: a pod that names its node goes there or nowhere.

Filter   rejects every other node.
Reads    the names of the nodes.
"""

import bayplan
from bayplan import NodeTable, Pod, Reason, Verdict
from bayplan.blocks import named

OTHER_NODE = Reason("node(s) didn't match the requested node name", helped_by=frozenset({"nodes"}))


@bayplan.policy
class NodeName:
    """A pod that names its node goes there or nowhere."""

    @bayplan.filter(reads="node")
    def is_named(self, pod: Pod, nodes: NodeTable) -> Verdict | None:
        """Refuse every node but the one that ``spec.nodeName`` names."""
        return OTHER_NODE.where(~named(nodes, pod.node_name)) if pod.node_name else None
