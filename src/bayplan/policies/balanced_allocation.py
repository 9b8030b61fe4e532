"""BalancedAllocation: prefer the node whose resources are used alike, so that none is left stranded.

Score   100 less the weighted standard deviation, in percent, of what part of each resource is taken.
Reads   ``allocatable`` and ``requested`` of the resources, ``cpu`` and ``memory`` by default.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

import bayplan
from bayplan import NodeTable, Pod, blocks
from bayplan.blocks import ResourceArgs


class BalancedAllocationArgs(ResourceArgs):
    """Settings of `BalancedAllocation`."""

    measure: Literal["Balance", "Improvement"] = "Balance"
    """The balance once the pod is there, or how much better it is than without the pod."""


@bayplan.policy
class BalancedAllocation:
    """Prefer the node whose resources are used alike."""

    def __init__(self, args: BalancedAllocationArgs) -> None:
        self._resources = args.resources
        self._improvement = args.measure == "Improvement"

    @bayplan.score(range=(0, 100), reads="pods")
    def balance(self, pod: Pod, nodes: NodeTable) -> NDArray[np.float64]:
        """How alike the resources are used; no opinion about a pod that asks for none of them."""
        if not any(pod.request(resource.name) for resource in self._resources):
            # It would change nothing, so every such pod would go to the one node that looks best now.
            return np.full(len(nodes), np.nan)
        after = self._balance(blocks.fractions(pod, nodes, self._resources))
        if not self._improvement:
            return after
        before = self._balance(blocks.fractions(pod, nodes, self._resources, with_pod=False))
        # Both are from 50 to 100, and so is this; 75 means that nothing changed.
        return 75.0 + (after - before) / 2

    def _balance(self, used: NDArray[np.float64]) -> NDArray[np.float64]:
        mean = blocks.weighted_mean(used, self._resources)
        deviation = np.sqrt(blocks.weighted_mean((used - mean) ** 2, self._resources))
        return 100.0 * (1.0 - deviation)
