"""The demo's policies: hardware that fits, spot nodes for batch, then cheap and roomy nodes first.

Filter   databases get an SSD and no spot node; GPU nodes are for pods that ask for a GPU.
Prefer   batch pods go to spot nodes while one has room.
Score    a low price (weight 2), and CPU that stays free.
Reads    labels ``disk``, ``capacity`` and ``example.com/price-per-hour``; ``cpu.*``, ``nvidia.com/gpu.*``.
"""

import numpy as np
from numpy.typing import NDArray

from bayplan.authoring.hooks import filter, prefer, score
from bayplan.authoring.verdict import Reason, Verdict
from bayplan.kube.pod import Pod
from bayplan.snapshot.columns import Label
from bayplan.snapshot.table import NodeTable

DISK, CAPACITY = Label("disk"), Label("capacity")
PRICE = Label("example.com/price-per-hour", float)
GPU = "nvidia.com/gpu"

NO_SSD = Reason("node has no SSD")
SPOT = Reason("databases do not run on spot nodes")
NO_FREE_GPU = Reason("no free GPU", detail="{free} free, {need} needed", preemptible=True)
GPU_NODE = Reason("GPU nodes are for GPU pods")
NOT_SPOT = Reason("batch pods go to spot nodes first")


@filter
def disks(pod: Pod, nodes: NodeTable) -> Verdict | None:
    """Databases want an SSD that stays."""
    if pod.labels.get("tier") != "db":
        return None
    return NO_SSD.where(nodes[DISK] != "ssd") | SPOT.where(nodes[CAPACITY] == "spot")


@filter
def gpus(pod: Pod, nodes: NodeTable) -> Verdict:
    """GPUs for those who ask for them, and their nodes for nobody else."""
    need = pod.request(GPU)
    if need:
        free = nodes[f"{GPU}.free"]
        return NO_FREE_GPU.where(free < need, free=free, need=need)
    return GPU_NODE.where(nodes[f"{GPU}.allocatable"] > 0)


@prefer
def spot(pod: Pod, nodes: NodeTable) -> Verdict | None:
    """Batch can be interrupted, so it takes the cheap nodes while there is room."""
    if pod.labels.get("tier") != "batch":
        return None
    return NOT_SPOT.where(nodes[CAPACITY] != "spot")


@score(best="low", weight=2)
def price(nodes: NodeTable) -> NDArray[np.float64]:
    """The cheaper, the better."""
    prices: NDArray[np.float64] = nodes[PRICE]
    return prices


@score(range=(0, 100))
def room(pod: Pod, nodes: NodeTable) -> NDArray[np.float64]:
    """CPU left after placement, in percent of the node."""
    left = nodes["cpu.free"] - pod.cpu_milli
    percent: NDArray[np.float64] = 100.0 * left / np.maximum(nodes["cpu.allocatable"], 1)
    return percent
