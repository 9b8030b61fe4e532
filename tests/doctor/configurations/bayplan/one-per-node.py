"""One pod a node: a rule between pods, so that it is run again at bind."""

import bayplan

TAKEN = bayplan.Reason("another pod is here")


@bayplan.filter(recheck=True)
def alone(pod: bayplan.Pod, nodes: bayplan.NodeTable) -> bayplan.Verdict:
    return TAKEN.where(nodes.count(bayplan.PodLabel("app").same_as(pod)) > 0)
