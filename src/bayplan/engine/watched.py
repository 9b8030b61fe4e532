"""A snapshot that notes whether a hook read the pods of the whole cluster.

Reading the nodes themselves, such as labels and allocatable resources, does not count: evictions do not
change them.
"""

from collections.abc import Callable, Iterator
from typing import Any

from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.columns import FLAGS, LABELS, PodColumn, split_resource
from bayplan.snapshot.row import Node
from bayplan.snapshot.table import NodeTable
from bayplan.snapshot.units import Units

_WITHOUT_PODS = frozenset(
    {"nodes", "objects", "rows", "find", "pods_known", "unsettled", "expected", "looked"}
)
_NODES_WITHOUT_PODS = frozenset({"names", "kinds", "ours", "resources", "column_names", "pods_known"})
_FIXED_RESOURCES = ("allocatable", "capacity")


class Watched(Snapshot):
    """A snapshot that notes reads of pods."""

    looked = False
    """Whether a hook read pods of other nodes than those that it was asked about."""

    def __init__(self, cluster: Snapshot) -> None:
        self.__dict__.update(cluster.__dict__, rows=cluster.rows, nodes=_Nodes(cluster.nodes, self._note))

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in _WITHOUT_PODS and not name.startswith("_"):
            self._note()
        return found

    def _note(self) -> None:
        self.__dict__["looked"] = True


class _Nodes(NodeTable):
    """The node table of a `Watched` snapshot; notes reads of pods."""

    __slots__ = ("_note",)

    def __init__(self, nodes: NodeTable, note: Callable[[], None]) -> None:
        for name in NodeTable.__slots__:
            setattr(self, name, getattr(nodes, name))
        self._note = note

    def __getattribute__(self, name: str) -> Any:
        if name not in _NODES_WITHOUT_PODS and not name.startswith("_"):
            super().__getattribute__("_note")()
        return super().__getattribute__(name)

    def __getitem__(self, column: Any) -> Any:
        if _of_pods(column):
            self._note()
        return super().__getitem__(column)

    def __iter__(self) -> Iterator[Node]:
        self._note()
        return super().__iter__()


def _of_pods(column: Any) -> bool:
    if not isinstance(column, str):
        return isinstance(column, PodColumn | Units)
    resource = split_resource(column)
    of_node = column in FLAGS or column in LABELS or (resource and resource[1] in _FIXED_RESOURCES)
    return not of_node
