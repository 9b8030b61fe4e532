"""NodeResourcesBalancedAllocation: prefer nodes whose resources the pod makes more evenly used.

Score    how even the shares that are requested are with the pod, against how even they are without: 50 to
         100, and 75 where nothing changes. A pod that requests none of the resources has no wish.
Reads    ``allocatable`` and ``requested`` of the resources, ``cpu`` and ``memory`` by default.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

import bayplan
from bayplan import Args, NodeTable, Pod, blocks

Floats = NDArray[np.float64]

_NATIVE = ("cpu", "memory", "ephemeral-storage")


class BalancedResource(Args):
    """A resource that is to be used as much as the others."""

    name: str
    """``cpu``, ``memory``, ``ephemeral-storage``, ``hugepages-2Mi``, ``example.com/gpu``, ..."""
    weight: Literal[0, 1] = 1
    """All count the same: 1, which is meant by 0 too."""

    def __post_init__(self) -> None:
        if self.name not in _NATIVE and "/" not in self.name and not self.name.startswith("hugepages-"):
            raise ValueError(
                f"{self.name!r} is no resource that is scored{blocks.suggest(self.name, _NATIVE)}"
            )


class NodeResourcesBalancedAllocationArgs(Args):
    """Settings of `NodeResourcesBalancedAllocation`."""

    resources: tuple[BalancedResource, ...] = ()
    """What is to be even; ``cpu`` and ``memory`` where nothing is said."""

    def __post_init__(self) -> None:
        names = [resource.name for resource in self.resources]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"resources: {twice!r} is there twice")


@bayplan.policy
class NodeResourcesBalancedAllocation:
    """Prefer nodes whose resources the pod makes more evenly used."""

    def __init__(self, args: NodeResourcesBalancedAllocationArgs) -> None:
        self._names = tuple(resource.name for resource in args.resources) or ("cpu", "memory")

    @bayplan.score(range=(0, 100), reads="pods")
    def evenness(self, pod: Pod, nodes: NodeTable) -> Floats | float:
        """How much more even the pod makes it."""
        needs = {name: pod.request(name) for name in self._names}
        if not any(needs.values()):
            return np.nan
        counted = [name for name in self._names if needs[name] or name in _NATIVE]
        whole = [nodes[f"{name}.allocatable"].astype(np.float64) for name in counted]
        # As floats: a sum past the largest int64 is a share of 1 either way.
        requested = [nodes[f"{name}.requested"].astype(np.float64) for name in counted]
        without = _score(requested, whole)
        for place, name in enumerate(counted):
            requested[place] += needs[name]
        change = _score(requested, whole)
        change -= without
        change += 50
        change /= 2
        return 50 + np.floor(change, out=change)


def _score(requested: Sequence[Floats], whole: Sequence[Floats]) -> Floats:
    """100 where all shares are the same, 50 where they are as far apart as can be."""
    if len(whole) == 2 and all(map(_positive, whole)):
        # The usual case, with as few steps as can be: this is done twice a pod.
        apart = _shares(requested[0], whole[0])
        apart -= _shares(requested[1], whole[1])
        deviation: Floats = np.abs(apart, out=apart)
        deviation /= 2
    else:
        shares = [_shares(one, has) for one, has in zip(requested, whole, strict=True)]
        deviation = _deviation(np.array(shares), np.array(whole) > 0)
    even = np.subtract(1, deviation, out=deviation)
    even *= 100
    return np.floor(even, out=even)


def _positive(amounts: Floats) -> bool:
    # Several times faster than amounts.all().
    return float(amounts.min(initial=1.0)) > 0.0


def _shares(requested: Floats, whole: Floats) -> Floats:
    if _positive(whole):
        shares: Floats = requested / whole
    else:
        shares = np.divide(requested, whole, out=np.zeros(len(whole)), where=whole > 0)
    return np.minimum(shares, 1.0, out=shares)


def _deviation(shares: Floats, there: NDArray[np.bool_]) -> Floats:
    """The standard deviation of the shares of the resources that a node has; 0 of one alone."""
    count = there.sum(axis=0)
    total = np.zeros(shares.shape[1])
    for share in shares:
        # One after another, as kube-scheduler adds them up: floats do not add up the same in another order.
        total += share
    mean = total / np.maximum(count, 1)
    squares = np.zeros(shares.shape[1])
    for share, has in zip(shares, there, strict=True):
        squares += np.where(has, (share - mean) * (share - mean), 0.0)
    deviation: Floats = np.sqrt(squares / np.maximum(count, 1))
    # Two are halved, not squared: the last bit decides between two whole numbers.
    pair = count == 2
    first = np.where(there, shares, -1.0).max(axis=0)
    last = np.where(there, shares, 2.0).min(axis=0)
    return np.where(pair, np.abs(first - last) / 2, np.where(count > 2, deviation, 0.0))
