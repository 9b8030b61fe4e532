"""MostAllocated: prefer the node that gets fullest, so that others stay empty.

Score   the weighted mean of what is taken of each resource once the pod is there, in percent.
Reads   ``allocatable`` and ``requested`` of the resources, ``cpu`` and ``memory`` by default.
"""

import numpy as np
from numpy.typing import NDArray

import bayplan
from bayplan import NodeTable, Pod, blocks
from bayplan.blocks import ResourceArgs


class MostAllocatedArgs(ResourceArgs):
    """Settings of `MostAllocated`."""


@bayplan.policy
class MostAllocated:
    """Prefer the node that gets fullest."""

    def __init__(self, args: MostAllocatedArgs) -> None:
        self._resources = args.resources

    @bayplan.score(range=(0, 100), reads="pods")
    def taken(self, pod: Pod, nodes: NodeTable) -> NDArray[np.float64]:
        """What is taken, in percent; 0 on a node that has none of the resources."""
        used = blocks.fractions(pod, nodes, self._resources)
        return 100.0 * blocks.weighted_mean(used, self._resources)
