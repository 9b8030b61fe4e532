"""Units are a resource in devices: how much of it is free on each device of each node.

Kubernetes counts an extended resource per node; which of four GPUs a pod got, only Bayplan tracks. A pod's
allocation is one annotation, written in the same request that binds it, so that the free amounts follow from
nodes and pods alone: no other record could disagree.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import index

import msgspec
import numpy as np
from numpy.typing import NDArray

from bayplan.kube.node import NodeObject
from bayplan.kube.pod import Pod
from bayplan.snapshot.columns import Label, NodeAnnotation
from bayplan.snapshot.strings import Strings

ALLOCATION = "bayplan.dev/allocation"
"""The annotation of a bound pod with its allocation: resource, device, amount."""

NO_DEVICE = -1
_DEVICES = re.compile(r"(?:(\d{1,4})x)?(\d{1,15})")
_DEVICES_LIMIT = 1024

# The longest annotation whose decoded form is kept; that of a pod on eight devices is shorter.
_KEPT_TEXT = 256

Taken = dict[str, dict[int, int]]
_TAKEN = msgspec.json.Decoder(Taken)


@dataclass(frozen=True)
class Allocation:
    """What a pod gets on a node: the result of an ``allocate`` hook. `Units.take` makes one.

    ``gpu.take(0, 500) | gpu.take(1, 300)`` is both together. ``annotate`` are further annotations of the pod,
    such as those that a device plugin reads.
    """

    taken: Mapping[str, Mapping[int, int]]
    """Amount by device, by resource."""
    annotate: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Checked here, so that the error names the policy's line.
        try:
            taken = {
                _text(resource): {index(device): index(amount) for device, amount in devices.items()}
                for resource, devices in self.taken.items()
            }
            annotate = {_text(key): _text(value) for key, value in self.annotate.items()}
        except (TypeError, AttributeError):
            raise TypeError(
                "Allocation wants {resource: {device: amount}} in whole numbers, such as"
                " {'example.com/gpu-milli': {0: 500}}, and annotations of text"
            ) from None
        object.__setattr__(self, "taken", taken)
        object.__setattr__(self, "annotate", annotate)

    def annotations(self) -> dict[str, str]:
        """All annotations to be written on the pod."""
        # Sorted, so that the same allocation is always the same text.
        written = {name: dict(sorted(devices.items())) for name, devices in sorted(self.taken.items())}
        return {**self.annotate, ALLOCATION: msgspec.json.encode(written).decode()}

    def __or__(self, other: "Allocation") -> "Allocation":
        """Both together; what both take of one device is added up."""
        taken = {resource: dict(devices) for resource, devices in self.taken.items()}
        for resource, devices in other.taken.items():
            so_far = taken.setdefault(resource, {})
            for device, amount in devices.items():
                so_far[device] = so_far.get(device, 0) + amount
        return Allocation(taken, {**self.annotate, **other.annotate})


@dataclass(frozen=True)
class Units:
    """A resource in devices: ``Units("example.com/gpu-milli", capacity=NodeAnnotation("example.com/gpus"))``.

    The capacity says how large each device of a node is: ``1000,1000,500``, or ``2x1000`` for two of a size.
    ``nodes[units]`` is what is free: int64, a row for each node, a column for each device, -1 where there is
    no such device.
    """

    resource: str
    capacity: Label | NodeAnnotation

    @property
    def title(self) -> str:
        """Its name in errors and in ``bayplan columns``."""
        return f"Units({self.resource!r})"

    @property
    def meaning(self) -> str:
        """One line for ``bayplan columns``."""
        return f"{self.resource} that is free, device by device"

    def need(self, pod: Pod) -> int:
        """How much of the resource the pod requests."""
        return pod.request(self.resource)

    def take(
        self, devices: int | Iterable[int], amount: int, *, annotate: Mapping[str, str] | None = None
    ) -> Allocation:
        """An `Allocation` of ``amount`` of one device, or of each of several."""
        numbers = devices if isinstance(devices, Iterable) else (devices,)
        return Allocation({self.resource: {int(device): int(amount) for device in numbers}}, annotate or {})

    def sizes(self, node: NodeObject) -> tuple[int, ...]:
        """The size of each device of the node; empty if the node does not say."""
        return device_sizes(self.capacity.texts(node).get(self.capacity.key))

    def largest(self, capacities: Strings) -> NDArray[np.int64]:
        """The size of each node's largest device, from the column of capacities; 0 without devices."""
        sizes = [max(device_sizes(text), default=0) for text in capacities.values]
        # The code of an absent text is -1, which is the last index.
        return np.array([*sizes, 0], dtype=np.int64)[capacities.codes]

    def given_to(self, pod: Pod) -> Mapping[int, int]:
        """What a pod's annotation allocates, by device; empty if it cannot be true.

        Anybody may have written the annotation. So each device counts up to what the pod requests, and the
        annotation counts only if it covers the whole request.
        """
        return self._given(pod, self.need(pod))

    def read_loaded(
        self, nodes: Sequence[NodeObject], pods: Sequence[Iterable[Pod]], *, devices: int = 0
    ) -> NDArray[np.int64]:
        """What is free on each device of these nodes, at least ``devices`` columns wide."""
        sizes = [self.sizes(node) for node in nodes]
        width = max([devices, *(len(size) for size in sizes)])
        free = np.full((len(nodes), width), NO_DEVICE, dtype=np.int64)
        for row, (size, pods_there) in enumerate(zip(sizes, pods, strict=True)):
            if size:
                free[row, : len(size)] = self._left(size, pods_there)
        return free

    def _left(self, sizes: tuple[int, ...], pods: Iterable[Pod]) -> list[int]:
        left = list(sizes)
        for pod in pods:
            for device, amount in self.held_by(pod, len(sizes)).items():
                left[device] = max(0, left[device] - amount)
        return left

    def held_by(self, pod: Pod, devices: int) -> Mapping[int, int]:
        """What a bound pod holds, by device; without an allocation it may use any, and counts on all."""
        need = self.need(pod)
        if not need:
            return {}
        held = {device: amount for device, amount in self._given(pod, need).items() if device < devices}
        return held if sum(held.values()) >= need else dict.fromkeys(range(devices), need)

    def _given(self, pod: Pod, need: int) -> Mapping[int, int]:
        claimed = taken(pod.annotations.get(ALLOCATION, "{}")).get(self.resource, {})
        given = {device: min(amount, need) for device, amount in claimed.items()}
        return given if need and sum(given.values()) >= need else {}


def _text(given: object) -> str:
    if not isinstance(given, str):
        raise TypeError
    return given


def taken(text: str) -> Taken:
    """The amounts in an allocation annotation, by resource and device; empty if it cannot be read."""
    # A pod's owner could write a new long text each second: long ones are not kept.
    return _taken(text) if len(text) <= _KEPT_TEXT else _taken.__wrapped__(text)


def with_taken(text: str, other: str) -> str:
    """An allocation annotation with the devices of both, of the resources that the first one names."""
    both = {resource: dict(devices) for resource, devices in taken(text).items()}
    for resource, devices in taken(other).items():
        there = both.get(resource)
        if there is not None:
            there.update({device: max(amount, there.get(device, 0)) for device, amount in devices.items()})
    return msgspec.json.encode(
        {name: dict(sorted(devices.items())) for name, devices in both.items()}
    ).decode()


@lru_cache(maxsize=16384)
def _taken(text: str) -> Taken:
    try:
        found = _TAKEN.decode(text)
    except (msgspec.MsgspecError, UnicodeError):
        return {}
    # No node has more devices; thousands that are none would fill each report about devices.
    return {
        resource: {
            device: amount
            for device, amount in devices.items()
            if 0 <= device < _DEVICES_LIMIT and amount >= 0
        }
        for resource, devices in found.items()
    }


@lru_cache(maxsize=65536)
def device_sizes(text: str | None) -> tuple[int, ...]:
    """The sizes of a node's devices; empty if the text is missing or cannot be read."""
    sizes: list[int] = []
    for part in (text or "").replace(" ", "").split(","):
        match = _DEVICES.fullmatch(part)
        if match is None:
            return ()
        sizes += [int(match[2])] * int(match[1] or 1)
    return tuple(sizes) if len(sizes) <= _DEVICES_LIMIT else ()
