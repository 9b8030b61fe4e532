"""Typed columns: a policy names one, and the node table computes it once for all nodes.

``nodes[Label("rack")]`` is text (`Strings`), ``nodes[Label("price", float)]`` is an array of floats
with NaN where the label is missing or cannot be read.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from bayplan.kube.node import NodeObject
from bayplan.kube.pod import Pod
from bayplan.kube.quantity import QuantityError, amount
from bayplan.kube.resources import Quantities
from bayplan.snapshot.strings import Strings

Values = NDArray[Any] | Strings
TextName = Literal["zone", "region", "hostname", "instance-type", "arch", "os"]
"""The names of the text columns."""
FlagName = Literal["ready", "unschedulable"]
"""The names of the bool columns. Every other name is a resource's, in whole numbers."""

NATIVE_RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods")
# Kubelets up to 1.30 report attachable-volumes- for the disks of clouds.
_RESOURCE_PREFIXES = ("hugepages-", "attachable-volumes-")
WELL_KNOWN_LABELS = {
    "zone": "topology.kubernetes.io/zone",
    "region": "topology.kubernetes.io/region",
    "hostname": "kubernetes.io/hostname",
    "instance-type": "node.kubernetes.io/instance-type",
    "arch": "kubernetes.io/arch",
    "os": "kubernetes.io/os",
}
_TYPES = {str: "text", float: "number", int: "whole number", bool: "true or false"}
_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no", "")


class Column(Protocol):
    """A column that is read from Node objects."""

    @property
    def title(self) -> str:
        """Its name in errors and in ``bayplan columns``."""
        ...

    @property
    def meaning(self) -> str:
        """One line for ``bayplan columns``."""
        ...

    def read(self, nodes: list[NodeObject]) -> Values:
        """One value per node."""
        ...


class PodColumn:
    """A column that is read from the pods on each node; derive a frozen dataclass from it."""

    @property
    def title(self) -> str:
        """Its name in errors and in ``bayplan columns``."""
        raise NotImplementedError

    @property
    def meaning(self) -> str:
        """One line for ``bayplan columns``."""
        raise NotImplementedError

    def read_pods(self, pods: Sequence[Iterable[Pod]]) -> NDArray[Any]:
        """One value per node, from the pods on each."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Keyed:
    """A column of one key in a string map of the node, such as its labels."""

    key: str
    type: type = str
    default: float | None = None

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        if self.type not in _TYPES:
            raise TypeError(f"{self.title}: type must be str, float, int or bool, not {self.type!r}")
        if self.type is str and self.default is not None:
            raise TypeError(f"{self.title}: text has no default; absent nodes equal nothing")

    @property
    def title(self) -> str:
        return f"{self.kind}({self.key!r})"

    @property
    def meaning(self) -> str:
        return f"{self.kind.lower()} {self.key} of the node, read as {_TYPES[self.type]}"

    def texts(self, node: NodeObject) -> Mapping[str, str]:
        raise NotImplementedError

    def read(self, nodes: list[NodeObject]) -> Values:
        found = [self.texts(node).get(self.key) for node in nodes]
        if self.type is str:
            return Strings.intern(found)
        missing = np.nan if self.default is None else float(self.default)
        parsed = {text: parse_number(text, self.type) for text in set(found)}
        return np.array(
            [missing if (value := parsed[text]) is None else value for text in found],
            dtype=np.float64,
        )

    def unreadable(self, nodes: list[NodeObject]) -> list[str]:
        """The names of the nodes whose text is not of the column's type."""
        if self.type is str:
            return []
        found = ((node.name, self.texts(node).get(self.key)) for node in nodes)
        return [n for n, text in found if text is not None and parse_number(text, self.type) is None]


class Label(_Keyed):
    """A label of nodes as a column: ``nodes[Label("rack")]``, ``nodes[Label("example.com/price", float)]``.

    Without a type it is text, `Strings`. With ``float``, ``int`` or ``bool`` it is an array of floats, with
    NaN, or ``default``, where the label is missing or is not of that type.
    """

    kind = "Label"

    def texts(self, node: NodeObject) -> Mapping[str, str]:
        """The map that the key is looked up in."""
        return node.labels


class NodeAnnotation(_Keyed):
    """An annotation of nodes as a column, as `Label` is: ``NodeAnnotation("example.com/gpus", int)``."""

    kind = "NodeAnnotation"

    def texts(self, node: NodeObject) -> Mapping[str, str]:
        """The map that the key is looked up in."""
        return node.annotations


def parse_number(text: str | None, kind: type) -> float | None:
    """The number in a label; ``None`` if it is missing or unreadable; never NaN or infinity."""
    if text is None:
        return None
    if kind is bool:
        word = text.strip().lower()
        return 1.0 if word in _TRUE else 0.0 if word in _FALSE else None
    if "_" in text:
        # Python alone reads 1_000 as a thousand.
        return None
    try:
        value = float(int(text)) if kind is int else float(text)
    except (ValueError, OverflowError):
        return None
    return value if np.isfinite(value) else None


@dataclass(frozen=True)
class Resource:
    """The ``allocatable`` or ``capacity`` of one resource, as exact int64."""

    name: str
    aspect: str

    @property
    def title(self) -> str:
        """Its name in errors and in ``bayplan columns``."""
        return f"{self.name}.{self.aspect}"

    @property
    def meaning(self) -> str:
        """One line for ``bayplan columns``."""
        return f"{self.name} that {'pods may use' if self.aspect == 'allocatable' else 'the node has'}"

    def read(self, nodes: list[NodeObject]) -> Values:
        """One exact integer per node; 0 if the node does not have the resource."""
        values = np.zeros(len(nodes), dtype=np.int64)
        for row, node in enumerate(nodes):
            quantities = self._quantities(node)
            if quantities and (quantity := quantities.get(self.name)) is not None:
                values[row] = self._amount(node, quantity)
        return values

    def _quantities(self, node: NodeObject) -> Quantities | None:
        status = node.status
        if status is None:
            return None
        return status.capacity if self.aspect == "capacity" else status.allocatable or status.capacity

    def _amount(self, node: NodeObject, quantity: str | int | float) -> int:
        try:
            return amount(self.name, quantity)
        except QuantityError as error:
            raise QuantityError(f"node {node.name}: status.{self.aspect}.{self.name}: {error}") from None


@dataclass(frozen=True)
class Flag:
    """A bool that every node has."""

    name: str

    @property
    def title(self) -> str:
        """Its name in errors and in ``bayplan columns``."""
        return self.name

    @property
    def meaning(self) -> str:
        """One line for ``bayplan columns``."""
        return {"ready": "the Ready condition is True", "unschedulable": "the node is cordoned"}[self.name]

    def read(self, nodes: list[NodeObject]) -> Values:
        """One bool per node."""
        return np.array([getattr(node, self.name) for node in nodes], dtype=np.bool_)


FLAGS = {"ready": Flag("ready"), "unschedulable": Flag("unschedulable")}
LABELS = {name: Label(key) for name, key in WELL_KNOWN_LABELS.items()}
ASPECTS = ("allocatable", "capacity", "requested", "free")


def split_resource(name: str) -> tuple[str, str] | None:
    """``("cpu", "free")`` from ``cpu.free``; ``None`` if it is no column of a resource.

    Extended resources have a slash. A policy may read one that no node has: a policy for GPUs must also run
    on nodes without any.
    """
    resource, dot, aspect = name.rpartition(".")
    return (resource, aspect) if dot and aspect in ASPECTS and is_resource(resource) else None


def is_resource(name: str) -> bool:
    """Whether Kubernetes can have a resource of that name."""
    return name in NATIVE_RESOURCES or "/" in name or name.startswith(_RESOURCE_PREFIXES)


def resource_meant(name: str, there: Iterable[str] = (), *, aspect: str = "") -> str:
    """The end of an error about an unknown resource: a suggestion, out of those that nodes have.

    An extended resource with that last part comes first: ``gpu`` means ``nvidia.com/gpu``, not ``cpu``.
    """
    tail = f".{aspect}" if aspect else ""
    known = [*NATIVE_RESOURCES, *there]
    meant = [one for one in known if one.endswith(f"/{name}")]
    meant += get_close_matches(name, known, n=1, cutoff=0.75)
    meant += [one for one in NATIVE_RESOURCES if len(name) > 2 and name in one]
    if meant:
        return f"; did you mean {meant[0] + tail!r}?"
    return (
        f"; extended resources are written as vendor/name, such as 'nvidia.com/gpu{tail}';"
        f" the others are {', '.join(NATIVE_RESOURCES)}"
    )
