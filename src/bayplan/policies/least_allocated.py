"""LeastAllocated: prefer the node that keeps the most of its resources free.

Score   the weighted mean of what is free of each resource once the pod is there, in percent.
Reads   ``allocatable`` and ``requested`` of the resources, ``cpu`` and ``memory`` by default.
"""

import numpy as np
from numpy.typing import NDArray

import bayplan
from bayplan import NodeTable, Pod, blocks
from bayplan.blocks import ResourceArgs


class LeastAllocatedArgs(ResourceArgs):
    """Settings of `LeastAllocated`."""


@bayplan.policy
class LeastAllocated:
    """Prefer the node that keeps the most of its resources free."""

    def __init__(self, args: LeastAllocatedArgs) -> None:
        self._resources = args.resources

    @bayplan.score(range=(0, 100), reads="pods")
    def free(self, pod: Pod, nodes: NodeTable) -> NDArray[np.float64]:
        """What is free, in percent; 0 on a node that has none of the resources."""
        free = 1.0 - blocks.fractions(pod, nodes, self._resources)
        return 100.0 * blocks.weighted_mean(free, self._resources)
