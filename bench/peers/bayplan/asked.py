"""As `policy.py`, and it says that it may read anything: so it is asked about every pod."""

import numpy as np
from numpy.typing import NDArray

import bayplan

DISK = bayplan.Label("disk")
POINTS = bayplan.Label("example.com/points", int, default=0)
NO_SSD = bayplan.Reason("node has no SSD")


@bayplan.filter(reads="cluster")
def on_ssd(nodes: bayplan.NodeTable) -> bayplan.Verdict:
    """Only nodes with an SSD."""
    return NO_SSD.where(nodes[DISK] != "ssd")


@bayplan.score(range=(0, 10), reads="cluster")
def points(nodes: bayplan.NodeTable) -> NDArray[np.float64]:
    """As many as the label says."""
    found: NDArray[np.float64] = nodes[POINTS]
    return found
