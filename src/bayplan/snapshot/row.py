"""A node as one row of a table: what a hook gets as ``node``."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from bayplan.kube.node import NodeObject
from bayplan.kube.pod import Pod
from bayplan.kube.taint import Taint
from bayplan.snapshot.columns import Column, FlagName, TextName
from bayplan.snapshot.sources import Latch, Source
from bayplan.snapshot.units import Units

if TYPE_CHECKING:
    from bayplan.snapshot.table import NodeTable


class Node(Struct, frozen=True, eq=False, gc=False):
    """One node: what a hook gets as ``node``. ``node["cpu.free"]`` is its value in a `NodeTable` column."""

    # A struct, since one is made for each node and hook: it takes a third of a class's time.
    _table: "NodeTable"
    _row: int
    _object: NodeObject
    # Columns already read, shared by all nodes of one loop: to find a column takes longer than to read a row.
    _columns: dict[Any, Any]

    @property
    def name(self) -> str:
        """``metadata.name``."""
        return self._object.name

    @property
    def uid(self) -> str:
        """``metadata.uid``."""
        return self._object.uid

    @property
    def labels(self) -> Mapping[str, str]:
        """``metadata.labels``."""
        return self._object.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        """``metadata.annotations``."""
        return self._object.annotations

    @property
    def taints(self) -> tuple[Taint, ...]:
        """``spec.taints``."""
        return self._object.taints

    @property
    def unschedulable(self) -> bool:
        """Whether the node is cordoned."""
        return self._object.unschedulable

    @property
    def ready(self) -> bool:
        """Whether the Ready condition is True."""
        return self._object.ready

    @property
    def zone(self) -> str:
        """Label ``topology.kubernetes.io/zone``, or ``""``."""
        return self.labels.get("topology.kubernetes.io/zone", "")

    @property
    def region(self) -> str:
        """Label ``topology.kubernetes.io/region``, or ``""``."""
        return self.labels.get("topology.kubernetes.io/region", "")

    @property
    def instance_type(self) -> str:
        """Label ``node.kubernetes.io/instance-type``, or ``""``."""
        return self.labels.get("node.kubernetes.io/instance-type", "")

    @property
    def allocatable(self) -> Mapping[str, int]:
        """What pods may use, by resource: milli-CPU for ``cpu``, bytes or units for the rest."""
        return self._object.allocatable

    @property
    def capacity(self) -> Mapping[str, int]:
        """What the machine has, by resource."""
        return self._object.capacity

    @property
    def requested(self) -> Mapping[str, int]:
        """What the pods on the node request, by resource."""
        return self._table.requested(self._row)

    @property
    def free(self) -> Mapping[str, int]:
        """What is left to request, by resource; below zero where pods were placed past the limit."""
        requested = self.requested
        return {name: value - requested.get(name, 0) for name, value in self.allocatable.items()}

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The pods on the node."""
        return self._table.pods(self._row)

    @property
    def object(self) -> NodeObject:
        """The Node object as it was sent."""
        return self._object

    @overload
    def __getitem__(self, column: TextName) -> str | None: ...  # type: ignore[overload-overlap]
    @overload
    def __getitem__(self, column: FlagName | Latch) -> bool: ...
    @overload
    def __getitem__(self, column: str) -> int: ...
    @overload
    def __getitem__(self, column: Units) -> NDArray[np.int64]: ...
    @overload
    def __getitem__(self, column: Column | Source) -> Any: ...
    def __getitem__(self, column: str | Column | Units | Source | Latch) -> Any:
        """The node's value in a column, as a plain Python value; for `Units` an array, one value a device."""
        values = self._columns.get(column)
        if values is None:
            values = self._columns[column] = self._table[column]
        value = values[self._row]
        return value.item() if isinstance(value, np.generic) else value

    def __repr__(self) -> str:
        return f"Node({self.name!r})"
