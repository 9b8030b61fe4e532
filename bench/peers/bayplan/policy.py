"""The label filter of the benchmarks, over whole columns: an SSD is needed, points are preferred.

It looks at labels of nodes alone, as its source shows: what it says of one pod holds for the next.
"""

import numpy as np
from numpy.typing import NDArray

import bayplan

DISK = bayplan.Label("disk")
POINTS = bayplan.Label("example.com/points", int, default=0)
NO_SSD = bayplan.Reason("node has no SSD")


@bayplan.filter
def on_ssd(nodes: bayplan.NodeTable) -> bayplan.Verdict:
    """Only nodes with an SSD."""
    return NO_SSD.where(nodes[DISK] != "ssd")


@bayplan.score(range=(0, 10))
def points(nodes: bayplan.NodeTable) -> NDArray[np.float64]:
    """As many as the label says."""
    found: NDArray[np.float64] = nodes[POINTS]
    return found
