"""The same rule as it should not be: nobody looks again at bind."""

import bayplan

TAKEN = bayplan.Reason("another pod is here")


@bayplan.filter
def alone(pod: bayplan.Pod, nodes: bayplan.NodeTable) -> bayplan.Verdict:
    return TAKEN.where(nodes.count(bayplan.PodLabel("app").same_as(pod)) > 0)
