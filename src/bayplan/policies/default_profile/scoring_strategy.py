"""How NodeResourcesFit scores nodes: by what is left of their resources, by what is taken, or by a curve.

A number for each resource, whole percents as kube-scheduler rounds them, and their weighted mean.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from bayplan import Args, NodeTable, Pod, blocks

Ints = NDArray[np.int64]

NATIVE = ("cpu", "memory", "ephemeral-storage")
_LARGEST = 2**63 - 1
# Above this a hundred times a number is no int64.
_MULTIPLIABLE = _LARGEST // 100


class ScoredResource(Args):
    """A resource that is scored."""

    name: str
    """``cpu``, ``memory``, ``ephemeral-storage``, ``hugepages-2Mi``, ``example.com/gpu``, ..."""
    weight: Annotated[int, msgspec.Meta(ge=0, le=100)] = 1
    """How much it counts beside the others; 0 is 1."""

    def __post_init__(self) -> None:
        if self.name not in NATIVE and not is_scalar(self.name):
            known = blocks.suggest(self.name, NATIVE)
            raise ValueError(f"{self.name!r} is no resource that is scored{known}")


class ShapePoint(Args):
    """A point of the curve."""

    utilization: Annotated[int, msgspec.Meta(ge=0, le=100)]
    """What is taken, in percent."""
    score: Annotated[int, msgspec.Meta(ge=0, le=10)]
    """How good that is."""


class RequestedToCapacityRatio(Args):
    """A score for each share that is taken."""

    shape: Annotated[tuple[ShapePoint, ...], msgspec.Meta(min_length=1)]
    """Points in the order of utilization; between them the score goes straight."""

    def __post_init__(self) -> None:
        if any(later.utilization <= earlier.utilization for earlier, later in pairwise(self.shape)):
            raise ValueError("shape: the utilization of each point must be above that of the one before")


class ScoringStrategy(Args):
    """How nodes are scored."""

    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"] = "LeastAllocated"
    """Rather empty nodes, rather full ones, or by a curve."""
    resources: tuple[ScoredResource, ...] = ()
    """What counts; ``cpu`` and ``memory`` equally where nothing is said."""
    requested_to_capacity_ratio: RequestedToCapacityRatio | None = None
    """The curve."""

    def __post_init__(self) -> None:
        if (self.type == "RequestedToCapacityRatio") != (self.requested_to_capacity_ratio is not None):
            raise ValueError("`requestedToCapacityRatio` goes with the type of that name, and only with it")


@dataclass(frozen=True)
class NonZeroRequests(blocks.PodColumn):
    """What the pods of a node count for in scores; see `Pod.nonzero_requests`."""

    resource: Literal["cpu", "memory"]

    @property
    def title(self) -> str:
        """How errors call it."""
        return f"NonZeroRequests({self.resource!r})"

    @property
    def meaning(self) -> str:
        """What it is, in a line."""
        return f"{self.resource} of the pods on a node, with a little for containers that ask for none"

    def read_pods(self, pods: Sequence[Iterable[Pod]]) -> Ints:
        """One sum a node."""
        which = 0 if self.resource == "cpu" else 1
        sums = (min(sum(pod.nonzero_requests[which] for pod in there), _LARGEST) for there in pods)
        return np.fromiter(sums, dtype=np.int64, count=len(pods))


_COUNTED = {"cpu": NonZeroRequests("cpu"), "memory": NonZeroRequests("memory")}


class AllocationScore:
    """A scoring strategy, ready to score."""

    def __init__(self, strategy: ScoringStrategy) -> None:
        self._type = strategy.type
        self._resources = strategy.resources or (ScoredResource(name="cpu"), ScoredResource(name="memory"))
        ratio = strategy.requested_to_capacity_ratio
        self._curve = None if ratio is None else curve(ratio.shape)

    def of(self, asked: Mapping[str, int], nodes: NodeTable) -> Ints:
        """0 to 100 a node, once a pod that asks for so much is there."""
        total: Ints | int = 0
        weights: Ints | int = 0
        for resource in self._resources:
            need = asked.get(resource.name, 0)
            if not need and resource.name not in NATIVE:
                continue
            has = nodes[f"{resource.name}.allocatable"]
            score = self._of_resource(has, _left(has, _allocated(nodes, resource.name), need))
            weight: Ints | int = resource.weight or 1
            # A virtual node may report nothing of it: the resource does not count there.
            if self._curve is not None:
                weight = weight * ((has > 0) & (score > 0)).astype(np.int64)
            elif not _positive(has):
                weight = weight * (has > 0).astype(np.int64)
            total = total + (score if isinstance(weight, int) and weight == 1 else score * weight)
            weights = weights + weight
        if not isinstance(weights, int):
            weights = np.maximum(weights, 1)
        elif not weights:
            return np.zeros(len(nodes), dtype=np.int64)
        if self._curve is None:
            return np.asarray(total // weights)
        return np.floor(np.asarray(total / weights) + 0.5).astype(np.int64)

    def _of_resource(self, has: Ints, left: Ints) -> Ints:
        """0 to 100 a node, whatever for a node that has nothing."""
        if self._type == "LeastAllocated":
            return percent(left, has)
        taken = percent(has - left, has)
        return taken if self._curve is None else self._curve.take(taken, mode="clip")


def is_scalar(resource: str) -> bool:
    """Whether kube-scheduler counts a resource that is none of the native ones."""
    if resource.startswith("hugepages-"):
        return True
    return "/" in resource and not resource.startswith("requests.")


def _allocated(nodes: NodeTable, resource: str) -> Ints:
    column = _COUNTED.get(resource)
    allocated: Ints = nodes[column or f"{resource}.requested"]
    return allocated


def _left(has: Ints, allocated: Ints, need: int) -> Ints:
    """What is left, never less than nothing."""
    left: Ints = has - allocated
    # In two steps: a request below what is less than nothing could pass the end of int64.
    np.maximum(left, 0, out=left)
    left -= need
    np.maximum(left, 0, out=left)
    return left


def percent(part: Ints, whole: Ints) -> Ints:
    """Whole percents; every part of nothing is 0."""
    if int(whole.max(initial=0)) > _MULTIPLIABLE:
        return (100.0 * part / np.maximum(whole, 1)).astype(np.int64)
    hundredfold = part * 100
    divisor = whole if _positive(whole) else np.maximum(whole, 1)
    return np.floor_divide(hundredfold, divisor, out=hundredfold)


def _positive(amounts: Ints) -> bool:
    return int(amounts.min(initial=1)) > 0


def curve(shape: Sequence[ShapePoint]) -> Ints:
    """The score of each percent that is taken, 0 to 100."""
    scores = []
    for taken in range(101):
        before = [point for point in shape if point.utilization < taken]
        after = [point for point in shape if point.utilization >= taken]
        if not before or not after:
            scores.append(10 * (before[-1] if before else after[0]).score)
            continue
        low, high = before[-1], after[0]
        rise = 10 * (high.score - low.score) * (taken - low.utilization)
        # Towards zero on the way down too, as Go divides.
        scores.append(10 * low.score + int(rise / (high.utilization - low.utilization)))
    return np.array(scores, dtype=np.int64)
