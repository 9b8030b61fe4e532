"""How full nodes are: the fraction of each resource that is requested, and weighted means of them."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from bayplan.authoring.args import Args
from bayplan.kube.pod import Pod
from bayplan.snapshot.columns import NATIVE_RESOURCES, resource_meant, split_resource
from bayplan.snapshot.table import NodeTable


class ResourceWeight(Args):
    """One resource in a policy's arguments, with its weight."""

    name: str
    """``cpu``, ``memory``, ``pods``, ``example.com/gpu``, ..."""
    weight: Annotated[float, msgspec.Meta(gt=0, le=1_000_000)] = 1.0
    """How much the resource counts beside the others."""

    def __post_init__(self) -> None:
        if split_resource(f"{self.name}.free") is None:
            raise ValueError(f"no resource {self.name!r}{resource_meant(self.name)}")


class ResourceArgs(Args):
    """Settings of a policy over some resources; by default ``cpu`` and ``memory``, equally."""

    resources: Annotated[tuple[ResourceWeight, ...], msgspec.Meta(min_length=1)] = (
        ResourceWeight(name="cpu"),
        ResourceWeight(name="memory"),
    )
    """The resources that count, each with a weight."""

    def __post_init__(self) -> None:
        names = [resource.name for resource in self.resources]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"resource {twice!r} is there twice; give it one weight")


def fractions(
    pod: Pod, nodes: NodeTable, resources: Sequence[ResourceWeight], *, with_pod: bool = True
) -> NDArray[np.float64]:
    """The fraction of each resource that is requested with the pod placed: 0 to 1, one row per resource.

    NaN if the resource does not count, as in kube-scheduler: on a node that does not have it, and on every
    node for an extended resource that the pod does not request.
    """
    return np.array([_fraction(pod, nodes, resource.name, with_pod=with_pod) for resource in resources])


def weighted_mean(values: NDArray[np.float64], resources: Sequence[ResourceWeight]) -> NDArray[np.float64]:
    """The weighted mean over the resources, one value per node; NaN is left out, and 0 if all are NaN."""
    counts = np.where(np.isnan(values), 0.0, np.array([[resource.weight] for resource in resources]))
    total = counts.sum(axis=0)
    summed = (counts * np.nan_to_num(values)).sum(axis=0)
    mean: NDArray[np.float64] = np.divide(summed, total, out=np.zeros(len(total)), where=total > 0)
    return mean


def _fraction(pod: Pod, nodes: NodeTable, resource: str, *, with_pod: bool) -> NDArray[np.float64]:
    asked = 1 if resource == "pods" else pod.request(resource)
    used = np.full(len(nodes), np.nan)
    if asked or resource in NATIVE_RESOURCES:
        # In floats, since requests near the largest int64 would overflow.
        allocatable = nodes[f"{resource}.allocatable"].astype(np.float64)
        requested = nodes[f"{resource}.requested"] + float(asked if with_pod else 0)
        np.divide(requested, allocatable, out=used, where=allocatable > 0)
    return used.clip(0.0, 1.0)
