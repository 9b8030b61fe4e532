"""SharedResource: hand out slices of a node's devices, such as memory of its GPUs.

Filter    refuses nodes where too few devices have enough left; run again at bind.
Score     how well the pod fills its devices (``pack``), or how much they keep free (``spread``).
Allocate  one device or several, best-fit or first-fit, written on the pod at bind.
Reads     the pod's requests; the sizes of the devices from the node.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Annotated, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

import bayplan
from bayplan import Allocation, Args, Node, NodeAnnotation, NodeTable, Pod, Reason, Units, Verdict, blocks

Ints = NDArray[np.int64]
ResourceName = Annotated[
    str,
    msgspec.Meta(
        min_length=1, pattern="/", extra={"want": "a resource with a slash, such as example.com/gpu-memory"}
    ),
]
AnnotationKey = Annotated[
    str,
    msgspec.Meta(
        max_length=317,
        pattern=r"^(([a-z0-9][-a-z0-9.]*/)?[A-Za-z0-9][-A-Za-z0-9_.]*)?$",
        extra={"want": "the key of an annotation, such as example.com/gpu-index"},
    ),
]

NONE_AT_ALL = Reason(
    "node has no such device",
    detail="it has no {kind} {key}",
    helped_by=frozenset({"nodes"}),
    advice="if the node has devices, write their sizes on it, as in 16000,16000",
)
TOO_LARGE = Reason(
    "no device is that large",
    detail="{size} at most, {need} asked for",
    helped_by=frozenset({"nodes"}),
    advice="ask for less, in the unit that the nodes' devices are counted in; 8Gi counts bytes",
)
NO_DEVICE = Reason("no device has enough left", detail="{best} left, {need} needed", preemptible=True)
NOT_TOGETHER = Reason(
    "no device has enough of everything left", detail="needed of one device: {needs}", preemptible=True
)
TOO_FEW = Reason(
    "too few devices have enough left", detail="{found} with room, {wanted} needed", preemptible=True
)
UNREADABLE = Reason(
    "sizes of the node's devices cannot be read", detail="{key}: {text!r}", helped_by=frozenset({"nodes"})
)
NOTHING_OF_THEM = Reason("pod asks for devices, but not how much of each")


class DeviceResource(Args):
    """A resource that devices have: what pods request, and where nodes say how much there is."""

    resource: ResourceName
    """The extended resource that pods request, such as ``example.com/gpu-memory``."""
    capacity: Annotated[str, msgspec.Meta(min_length=1)]
    """The node annotation, or label, with the sizes of its devices: ``16000,16000`` or ``2x16000``."""
    capacity_from: Literal["annotation", "label"] = "annotation"
    """Where ``capacity`` is looked up."""

    def units(self) -> Units:
        """The column of what is free."""
        column = bayplan.Label if self.capacity_from == "label" else NodeAnnotation
        return Units(self.resource, capacity=column(self.capacity))


class DeviceCount(Args):
    """Where a pod says how many devices it wants: one of the two."""

    resource: ResourceName | None = None
    """An extended resource that the pod requests, such as ``example.com/gpu-count``."""
    annotation: AnnotationKey | None = None
    """An annotation of the pod."""

    def __post_init__(self) -> None:
        if bool(self.resource) == bool(self.annotation):
            raise ValueError("give either `resource` or `annotation`")


class SharedResourceArgs(DeviceResource):
    """Settings of `SharedResource`."""

    also: tuple[DeviceResource, ...] = ()
    """More resources of the same devices: a pod gets all that it asks for from the same ones."""
    device_count: DeviceCount | None = None
    """Where a pod says how many devices it wants; one where it is left out."""
    device: Literal["best-fit", "first-fit"] = "best-fit"
    """Which devices a pod gets: those that it fills best, or the first with room."""
    nodes: Literal["pack", "spread"] = "pack"
    """Which nodes are better: those that get full, or those that stay empty."""
    index_annotation: AnnotationKey = ""
    """Annotation of the pod that gets the numbers of its devices, for device plugins that read one."""

    def __post_init__(self) -> None:
        names = [self.resource, *(other.resource for other in self.also)]
        if self.device_count is not None and self.device_count.resource:
            names.append(self.device_count.resource)
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"resource {twice!r} is there twice")
        if self.index_annotation.startswith("bayplan.dev/"):
            raise ValueError("indexAnnotation: bayplan.dev/ is Bayplan's own; take the key your plugin reads")


@dataclass(frozen=True)
class _Ask:
    """What a pod wants: so much of each resource, of each of so many devices."""

    needs: tuple[tuple[Units, int], ...]
    devices: int


@bayplan.policy
class SharedResource:
    """Hand out slices of a node's devices."""

    def __init__(self, args: SharedResourceArgs) -> None:
        self._units = tuple(each.units() for each in (args, *args.also))
        self._args = args
        key = (args.device_count and args.device_count.annotation) or ""
        self._bad_count = Reason(f"pod's annotation {key} is no number of devices")
        self._mistyped = Reason(
            f"pod has no annotation {key}, but one that is nearly it",
            advice=f"the pod's annotation would have to be called {key}",
        )

    @bayplan.filter(recheck=True, reads="pods")
    def fits(self, pod: Pod, nodes: NodeTable) -> Verdict | Reason | None:
        """Enough devices must have room for all of it."""
        ask = self._ask(pod)
        if not isinstance(ask, _Ask):
            return ask
        verdicts = []
        every_free = _by_device([nodes[units] for units, _ in ask.needs])
        for free, (units, need) in zip(every_free, ask.needs, strict=True):
            text = nodes[units.capacity]
            best = free.max(axis=0, initial=-1)
            unreadable = text.present & (best < 0)
            key = units.capacity.key
            kind = "label" if isinstance(units.capacity, bayplan.Label) else "annotation"
            verdicts.append(NONE_AT_ALL.where(~text.present & (best < need), kind=kind, key=key))
            verdicts.append(UNREADABLE.where(unreadable, key=key, text=text))
            lacking = best < need
            if lacking.any():
                size = units.largest(text)
                verdicts.append(TOO_LARGE.where(lacking & (size > 0) & (size < need), size=size, need=need))
            verdicts.append(NO_DEVICE.where(lacking, best=np.maximum(best, 0), need=need))
        fitting = _fitting(every_free, ask)
        if ask.devices > 1:
            found = fitting.sum(axis=0)
            verdicts.append(TOO_FEW.where(found < ask.devices, found=found, wanted=ask.devices))
        elif len(ask.needs) > 1:
            needs = ", ".join(f"{need} {units.resource}" for units, need in ask.needs)
            verdicts.append(NOT_TOGETHER.where(~fitting.any(axis=0), needs=needs))
        return reduce(or_, verdicts)

    @bayplan.score(reads="pods")
    def room(self, pod: Pod, nodes: NodeTable) -> NDArray[np.float64]:
        """What the devices that the pod would get have left afterwards."""
        ask = self._ask(pod)
        if not isinstance(ask, _Ask):
            return np.full(len(nodes), np.nan)
        total = self._left([nodes[units] for units, _ in ask.needs], ask)
        total = np.where(np.isinf(total), np.nan, total)
        return total if self._args.nodes == "spread" else -total

    @bayplan.allocate
    def take(self, pod: Pod, node: Node) -> Allocation | Reason | None:
        """The devices that the pod gets."""
        ask = self._ask(pod)
        if not isinstance(ask, _Ask):
            return ask
        devices, left = self._choose([node[units][np.newaxis] for units, _ in ask.needs], ask)
        if np.isinf(left).any():
            return TOO_FEW if ask.devices > 1 else NO_DEVICE
        numbers = sorted(devices[0].tolist())
        key = self._args.index_annotation
        notes = {key: ",".join(map(str, numbers))} if key else {}
        return reduce(or_, (units.take(numbers, need, annotate=notes) for units, need in ask.needs))

    def _ask(self, pod: Pod) -> _Ask | Reason | None:
        """What the pod asks for; nothing, or something that cannot be understood."""
        needs = tuple((units, need) for units in self._units if (need := units.need(pod)))
        count = self._count(pod, asks=bool(needs))
        if isinstance(count, Reason):
            return count
        if not needs:
            return NOTHING_OF_THEM if count else None
        return _Ask(needs, count or 1)

    def _count(self, pod: Pod, *, asks: bool) -> int | Reason:
        """How many devices the pod wants; 0 where it does not say."""
        where = self._args.device_count
        if where is None:
            return 0
        if where.resource:
            return pod.request(where.resource)
        key = where.annotation or ""
        text = pod.annotations.get(key)
        if text is None:
            # Of pods that ask for nothing here, other people's keys are none of our business.
            return self._mistyped if asks and blocks.mistyped(key, pod.annotations) else 0
        well = text.isascii() and text.isdecimal() and len(text) <= 4 and int(text) > 0
        return int(text) if well else self._bad_count

    def _left(self, free: Sequence[Ints], ask: _Ask) -> NDArray[np.float64]:
        """What the pod's devices of each node would have left together; infinity where they are too few."""
        if ask.devices > 1 or self._args.device != "best-fit":
            total: NDArray[np.float64] = self._choose(free, ask)[1].sum(axis=1)
            return total
        # The usual case: how much the best one has left tells, and not which it is.
        by_device = _by_device(free)
        left = _left_of_each(by_device, ask, _fitting(by_device, ask))
        least: NDArray[np.float64] = left.min(axis=0, initial=np.inf)
        return least

    def _choose(self, free: Sequence[Ints], ask: _Ask) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """The devices of each node that the pod would get, and what each has left, in pods like this one.

        Infinity where a node has too few of them.
        """
        by_device = _by_device(free)
        fitting = _fitting(by_device, ask).T
        rows, width = fitting.shape
        if width < ask.devices:
            return np.zeros((rows, 1), dtype=np.intp), np.full((rows, 1), np.inf)
        left = _left_of_each(by_device, ask, fitting.T).T
        order = left if self._args.device == "best-fit" else ~fitting
        if ask.devices == 1:
            # The usual case, and several times faster than sorting.
            devices = order.argmin(axis=1)[:, np.newaxis]
        else:
            devices = order.argsort(axis=1, kind="stable")[:, : ask.devices]
        return devices, np.take_along_axis(left, devices, axis=1)


def _fitting(free: Sequence[Ints], ask: _Ask) -> NDArray[np.bool_]:
    """Which devices of each node have enough of everything; a device must have all that is asked for."""
    width = min(len(f) for f in free)
    enough = [f[:width] >= need for f, (_, need) in zip(free, ask.needs, strict=True)]
    return reduce(and_, enough)


def _left_of_each(free: Sequence[Ints], ask: _Ask, fitting: NDArray[np.bool_]) -> NDArray[np.float64]:
    """What each device would have left, in pods like this one; infinity for one that does not fit."""
    left = np.zeros(fitting.shape)
    for f, (_, need) in zip(free, ask.needs, strict=True):
        left += f[: len(fitting)] / need
    left -= len(free)
    left[~fitting] = np.inf
    return left


def _by_device(free: Sequence[Ints]) -> list[Ints]:
    """A row a device instead of a row a node: nodes are many, and what is side by side is fast."""
    return [np.ascontiguousarray(f.T) for f in free]
