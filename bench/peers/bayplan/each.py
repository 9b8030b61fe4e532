"""As `asked.py`, in the way that a first policy is written: two functions that are called for each node."""

import bayplan


@bayplan.filter(reads="cluster")
def on_ssd(node: bayplan.Node) -> str | None:
    """Only nodes with an SSD."""
    return None if node.labels.get("disk") == "ssd" else "node has no SSD"


@bayplan.score(range=(0, 10), reads="cluster")
def points(node: bayplan.Node) -> int:
    """As many as the label says."""
    return int(node.labels.get("example.com/points", 0))
