"""MostAvailableCPU: prefer the node that keeps the most CPU free.

Filter   refuses nodes whose free CPU does not cover the request plus the headroom; run again at bind.
Score    CPU left once the pod is there, in percent of what pods may use.
Reads    ``cpu.free`` and ``cpu.allocatable``, both in milli-CPU.
"""

from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

import bayplan
from bayplan import Args, NodeTable, Pod, Reason, Verdict

TOO_LITTLE_CPU = Reason(
    "too little CPU",
    detail="{free:cpu} free, {need:cpu} needed",
    preemptible=True,
    helped_by=frozenset({"pods", "nodes"}),
)


class MostAvailableCPUArgs(Args):
    """Settings of `MostAvailableCPU`."""

    headroom_milli: Annotated[int, msgspec.Meta(ge=0)] = 0
    """CPU that must stay free on the node once the pod is there, in thousandths of a core."""


@bayplan.policy
class MostAvailableCPU:
    """Prefer the node that keeps the most CPU free."""

    def __init__(self, args: MostAvailableCPUArgs) -> None:
        self._headroom = args.headroom_milli

    @bayplan.filter(recheck=True, reads="pods")
    def fits(self, pod: Pod, nodes: NodeTable) -> Verdict | None:
        """The request and the headroom must be free; a pod that asks for no CPU takes none of either."""
        if not pod.cpu_milli:
            return None
        free = nodes["cpu.free"]
        need = pod.cpu_milli + self._headroom
        return TOO_LITTLE_CPU.where(free < need, free=free, need=need)

    @bayplan.score(range=(0, 100), reads="pods")
    def cpu_left(self, pod: Pod, nodes: NodeTable) -> NDArray[np.float64]:
        """What is left, in percent."""
        # A virtual node may have no CPU at all: it scores 0, not NaN.
        most = np.maximum(nodes["cpu.allocatable"], 1)
        left: NDArray[np.float64] = (nodes["cpu.free"] - float(pod.cpu_milli)) / most
        return 100.0 * left.clip(0.0, 1.0)
