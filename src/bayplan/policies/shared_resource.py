"""SharedResource: hand out slices of a node's devices, such as memory of its GPUs.

Filter    refuses nodes where no single device has enough left; run again at bind.
Score     how well the best device is filled (``pack``), or how much it keeps free (``spread``).
Allocate  one device, best-fit or first-fit, written on the pod at bind.
Reads     the pod's request of the resource; the sizes of the devices from the node.
"""

from typing import Annotated, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

import bayplan
from bayplan import Allocation, Args, Node, NodeAnnotation, NodeTable, Pod, Reason, Units, Verdict

NO_DEVICE = Reason("no device has enough left", detail="{best} left, {need} needed", preemptible=True)


class SharedResourceArgs(Args):
    """Settings of `SharedResource`."""

    resource: Annotated[str, msgspec.Meta(min_length=1, pattern="/")]
    """The extended resource that pods request, such as ``example.com/gpu-memory``."""
    capacity: Annotated[str, msgspec.Meta(min_length=1)]
    """The node annotation, or label, with the sizes of its devices: ``16000,16000`` or ``2x16000``."""
    capacity_from: Literal["annotation", "label"] = "annotation"
    """Where ``capacity`` is looked up."""
    device: Literal["best-fit", "first-fit"] = "best-fit"
    """Which device a pod gets: the one that it fills best, or the first with room."""
    nodes: Literal["pack", "spread"] = "pack"
    """Which nodes are better: those that get full, or those that stay empty."""
    index_annotation: str = ""
    """Annotation of the pod that gets the number of its device, for device plugins that read one."""


@bayplan.policy
class SharedResource:
    """Hand out slices of a node's devices."""

    def __init__(self, args: SharedResourceArgs) -> None:
        column = bayplan.Label if args.capacity_from == "label" else NodeAnnotation
        self._units = Units(args.resource, capacity=column(args.capacity))
        self._args = args

    @bayplan.filter(recheck=True)
    def fits(self, pod: Pod, nodes: NodeTable) -> Verdict | None:
        """One device must have room for all of it."""
        need = self._units.need(pod)
        if not need:
            return None
        best = _most(nodes[self._units])
        return NO_DEVICE.where(best < need, best=np.maximum(best, 0), need=need)

    @bayplan.score
    def room(self, pod: Pod, nodes: NodeTable) -> NDArray[np.float64]:
        """What the device that the pod would get has left afterwards."""
        need = self._units.need(pod)
        free = nodes[self._units]
        if not need or not free.size:
            return np.full(len(nodes), np.nan)
        left = np.where(free >= need, free - need, np.inf).min(axis=1)
        left = np.where(np.isinf(left), np.nan, left)
        return left if self._args.nodes == "spread" else -left

    @bayplan.allocate
    def device(self, pod: Pod, node: Node) -> Allocation | Reason | None:
        """The device that the pod gets."""
        need = self._units.need(pod)
        if not need:
            return None
        free = node[self._units]
        fitting = np.flatnonzero(free >= need)
        if not fitting.size:
            return NO_DEVICE
        best = fitting[free[fitting].argmin()] if self._args.device == "best-fit" else fitting[0]
        key = self._args.index_annotation
        return self._units.take(int(best), need, annotate={key: str(best)} if key else {})


def _most(free: NDArray[np.int64]) -> NDArray[np.int64]:
    """The most that a single device has; -1 for a node without devices."""
    if not free.shape[1]:
        return np.full(len(free), -1, dtype=np.int64)
    most: NDArray[np.int64] = free.max(axis=1)
    return most
