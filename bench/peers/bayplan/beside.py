"""As `each.py`, written as a first policy is, beside a policy that reads the pods on nodes.

The source of the two functions shows that they depend on the node alone; the other policy is called for each
pod, and so rules out an answer without calling anything.
"""

import bayplan

CROWDED = bayplan.Reason("node has 100 pods", preemptible=True)


@bayplan.filter
def on_ssd(node: bayplan.Node) -> str | None:
    """Only nodes with an SSD."""
    return None if node.labels.get("disk") == "ssd" else "node has no SSD"


@bayplan.score(range=(0, 10))
def points(node: bayplan.Node) -> int:
    """As many as the label says."""
    return int(node.labels.get("example.com/points", 0))


@bayplan.filter(reads="pods")
def uncrowded(nodes: bayplan.NodeTable) -> bayplan.Verdict:
    """No node has so many pods here."""
    return CROWDED.where(nodes["pods.requested"] >= 100)
