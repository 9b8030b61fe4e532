"""A filter over a number from outside."""

import bayplan

P95 = bayplan.Source("p95")
SLOW = bayplan.Reason("the node is slow")


@bayplan.filter
def quick(pod: bayplan.Pod, nodes: bayplan.NodeTable) -> bayplan.Verdict:
    return SLOW.where(nodes[P95] > 0.5)
