"""The node table: nodes as NumPy columns, which policies read instead of a list of objects.

A table never changes. Columns are computed on first use and kept. A selection of rows (`take`) slices the
columns of its parent, so that labels are parsed once for the whole cluster.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from bayplan.kube.meta import only_read
from bayplan.kube.node import NodeObject
from bayplan.kube.pod import Pod
from bayplan.kube.yaml import suggest
from bayplan.snapshot.around import Around
from bayplan.snapshot.columns import (
    ASPECTS,
    FLAGS,
    LABELS,
    NATIVE_RESOURCES,
    Column,
    FlagName,
    PodColumn,
    Resource,
    TextName,
    Values,
    is_resource,
    resource_meant,
    split_resource,
)
from bayplan.snapshot.conditions import EVERY_POD
from bayplan.snapshot.domains import By, column_of, over_domains
from bayplan.snapshot.kept import Kept
from bayplan.snapshot.load import Load, PodsUnknown
from bayplan.snapshot.names import UnknownColumn, column_names, unknown_column
from bayplan.snapshot.patched import sliced
from bayplan.snapshot.row import Node
from bayplan.snapshot.sources import NO_READINGS, Latch, Readings, Requested, Source
from bayplan.snapshot.strings import Strings
from bayplan.snapshot.tally import Condition, PodKinds, PodTable
from bayplan.snapshot.units import Units


class NodeTable:
    """The nodes as NumPy columns: what a hook gets as ``nodes``.

    ``nodes["cpu.free"]`` is one number for each node, in the order of ``nodes.names``; ``bayplan columns``
    lists the names. Labels are ``nodes[Label("rack")]``. `count` and `sum` look at the pods on the nodes.
    """

    __slots__ = ("_kept", "_like", "_load", "_names", "_objects", "_parent", "_readings", "_rows")

    def __init__(
        self, objects: list[NodeObject], load: Load | None = None, *, kept: Kept | None = None
    ) -> None:
        self._objects = objects
        self._load = load
        self._names: Sequence[str] | None = None
        self._parent: NodeTable | None = None
        self._rows: NDArray[np.intp] | None = None
        # For a table made by `rows_with`: the table whose nodes it shares, and which rows of it.
        self._like: tuple[NodeTable, NDArray[np.intp]] | None = None
        self._kept = Kept() if kept is None else kept
        self._readings = NO_READINGS

    @property
    def names(self) -> Sequence[str]:
        """The names of the nodes, in row order."""
        if self._names is None:
            if self._parent is not None and self._rows is not None:
                every = self._parent.names
                self._names = list(map(every.__getitem__, self._rows.tolist()))
            else:
                self._names = [node.name for node in self.objects]
        return self._names

    def name(self, row: int) -> str:
        """The name of the node of that row."""
        if self._names is None and self._parent is not None and self._rows is not None:
            return self._parent.name(int(self._rows[row]))
        return self.names[row]

    @property
    def objects(self) -> list[NodeObject]:
        """The Node objects, in row order."""
        if self._parent is not None and self._rows is not None and not self._objects and len(self):
            parent = self._parent.objects
            self._objects = list(map(parent.__getitem__, self._rows.tolist()))
        return self._objects

    @property
    def pods_known(self) -> bool:
        """Whether the table knows the pods on its nodes."""
        return self._load is not None if self._parent is None else self._parent.pods_known

    def take(self, rows: NDArray[np.intp], names: Sequence[str] | None = None) -> "NodeTable":
        """A table of these rows; ``names`` saves looking them up again."""
        part = NodeTable([])
        part._parent, mine = self._root()
        part._rows = rows if mine is None else mine[rows]
        part._names = names
        return part

    def rows_with(
        self,
        rows: NDArray[np.intp],
        load: Load,
        *,
        requested: Mapping[str, NDArray[Any]],
        of_load: Mapping[PodColumn, NDArray[Any]],
    ) -> "NodeTable":
        """A table of these rows with other pods on them; the columns of those pods are given."""
        objects = self.objects
        part = NodeTable([objects[row] for row in rows.tolist()], load)
        part._like = (self, rows)
        part._readings = self.readings
        part._kept.named = dict(requested)
        part._kept.of_load = dict(of_load)
        return part

    def kept_columns(self) -> tuple[dict[str, NDArray[Any]], dict[PodColumn, NDArray[Any]]]:
        """The ``requested`` columns and the pod columns that were read lately."""
        return self._kept.of_pods()

    @property
    def load(self) -> Load | None:
        """The pods on the nodes; only of a table that was not made by `take`."""
        return self._load

    @property
    def tally(self) -> PodTable:
        """The counts of all placed pods of the cluster, by kind and by row of the root table."""
        load = self._root()[0]._load
        if load is None:
            raise PodsUnknown("counting pods")
        load.domains_read = True
        return load.tally

    @property
    def kinds(self) -> tuple[PodKinds, int]:
        """The kinds of pods, and how many of them (the first ones) this table's counts know."""
        load = self._root()[0]._load
        if load is None:
            raise PodsUnknown("kinds of pods")
        return load.tally.kinds

    @property
    def readings(self) -> Readings:
        """The readings of the sources, from which the source columns are made."""
        return self._root()[0]._readings

    def with_readings(self, readings: Readings) -> "NodeTable":
        """The same nodes and pods with other readings; columns are shared."""
        table = NodeTable(self.objects, self._load, kept=self._kept)
        table._names = self._names
        table._readings = readings
        return table

    def moves_on(self) -> None:
        """Count one step of the view to its next table; columns not read for many steps are dropped.

        Called once for each table of a view, and not for what-if copies: one search for victims makes
        hundreds of those, and would drop columns that every pod reads.
        """
        self._kept.last_read.next_step()

    def followed_by(
        self,
        objects: list[NodeObject],
        load: Load | None,
        *,
        changed: NDArray[np.intp],
        loaded: NDArray[np.intp],
    ) -> "NodeTable":
        """The next table after a few changes: only the changed rows are computed again.

        ``changed`` are rows with another Node object (new rows too), ``loaded`` rows with other pods.
        """
        resized = len(objects) != len(self)
        kept = self._kept.after(objects, load, changed=changed, loaded=loaded, resized=resized)
        table = NodeTable(objects, load, kept=kept)
        table._readings = self._readings
        table._names = self._names_after(objects, changed)
        return table

    def _names_after(self, objects: list[NodeObject], changed: NDArray[np.intp]) -> Sequence[str] | None:
        """This table's names, if the changed rows still have the same ones; otherwise ``None``."""
        names = self._names
        if names is None or len(objects) != len(names):
            return None
        return names if all(objects[row].name == names[row] for row in changed.tolist()) else None

    @overload
    def __getitem__(self, column: TextName) -> Strings: ...  # type: ignore[overload-overlap]
    @overload
    def __getitem__(self, column: FlagName | Latch) -> NDArray[np.bool_]: ...  # type: ignore[overload-overlap]
    @overload
    def __getitem__(self, column: str | Units) -> NDArray[np.int64]: ...
    @overload
    def __getitem__(self, column: Column | PodColumn | Source) -> Any: ...
    def __getitem__(self, column: str | Column | PodColumn | Units | Source | Latch) -> Any:
        """A column: by its name, such as ``"cpu.free"`` or ``"zone"``, or a `Label`, `Source` or `Units`."""
        if isinstance(column, str):
            if self._parent is None and self._like is None:
                return self._named(column)
            # A part of a table lives for one request: keep every column by its name, the shortest way.
            known = self._kept.named.get(column)
            if known is None:
                known = self._kept.named[column] = self._named(column)
            return known
        if isinstance(column, Units):
            return self._free_units(column)
        if isinstance(column, Source | Latch):
            return self._from_source(column)
        if isinstance(column, PodColumn):
            return self._of_placed(column)
        if not hasattr(column, "read"):
            raise TypeError(f"nodes[{column!r}]: no column; want a name ('cpu.free'), Label(KEY) or the like")
        return self._declared(column)

    def __contains__(self, column: object) -> bool:
        if isinstance(column, str):
            return column in FLAGS or column in LABELS or split_resource(column) is not None
        return hasattr(column, "read")

    def __len__(self) -> int:
        return len(self._objects) if self._rows is None else len(self._rows)

    def __iter__(self) -> Iterator[Node]:
        return map(Node, repeat(self), range(len(self)), self.objects, repeat({}))

    def row(self, which: int | str) -> Node:
        """One node, by row number or by name."""
        if isinstance(which, str):
            if which not in self.names:
                raise KeyError(f"no node {which!r}{suggest(which, self.names)}")
            which = list(self.names).index(which)
        place = range(len(self))[which]
        return Node(self, place, self.objects[place], {})

    def count(self, where: Condition = EVERY_POD, *, by: By | None = None) -> NDArray[np.int64]:
        """The number of these pods on each node or, with ``by``, in each node's rack, zone, ...

        ``nodes.count(PodLabel("app") == "db", by="zone")``. All placed pods of the cluster count, terminating
        ones too, finished ones not. Several columns in ``by`` are one domain together. A node without one of
        the ``by`` labels gets -1.
        """
        load = self._root()[0]._load
        if by is not None and load is not None and load.before is not None:
            return self._counted_in_cases(where, by, load.before, load.tally)
        return self._over_pods(lambda pods, nodes: pods.count(where, nodes), by)

    def around(self, weights: NDArray[np.int64] | NDArray[np.bool_]) -> Around:
        """The weight of the pods on every node of the cluster, as each node of this table sees it.

        ``weights`` has the weight of one pod of each kind.
        """
        root, rows = self._root()
        load = root._load
        if load is None:
            raise PodsUnknown("counting pods")
        now = load.tally.weigh(weights, len(root))
        if load.before is None:
            load.domains_read = True
            return Around(now)
        before = load.before.weigh(weights, len(root))
        change = now - before
        return Around(before, change if rows is None else change[rows])

    def sum(self, resource: str, where: Condition = EVERY_POD, *, by: By | None = None) -> NDArray[np.int64]:
        """The sum of what these pods request of a resource, on each node or in each domain; see `count`."""
        if not is_resource(resource):
            raise UnknownColumn(f"no resource {resource!r}{resource_meant(resource, self.resources)}")
        return self._over_pods(lambda pods, nodes: pods.sum(resource, where, nodes), by)

    def growth(self, resource: str, *, since: Source) -> NDArray[np.int64]:
        """How much more the pods on each node request of a resource now than when the source was read.

        Measured usage does not include pods that came later: add this to it.
        """
        root, rows = self._root()
        before = root._readings.of(since).before
        if before is None or not root.pods_known:
            return np.zeros(len(self), dtype=np.int64)
        grown: NDArray[np.int64] = root[f"{resource}.requested"] - before.over(root.names, resource)
        return grown if rows is None else grown[rows]

    def ours(self, values: NDArray[Any]) -> NDArray[Any]:
        """The values of this table's rows, out of ``values`` with one for each node of the cluster."""
        _, rows = self._root()
        return values if rows is None else values[rows]

    @property
    def every_name(self) -> Sequence[str]:
        """The names of all nodes of the root table."""
        return self._root()[0].names

    @property
    def origin(self) -> tuple[Sequence[str], NDArray[np.uint32]]:
        """The names of all nodes of the root table, and the rows of this table in it.

        Successive tables share their names, and whole tables their rows, so that keeping this costs little.
        """
        root, rows = self._root()
        return root.names, _every_row(len(root)) if rows is None else rows.astype(np.uint32)

    @property
    def rows(self) -> NDArray[np.intp]:
        """The rows of this table in the root table."""
        root, rows = self._root()
        return np.arange(len(root)) if rows is None else rows

    @property
    def requested_now(self) -> Requested | None:
        """What pods request on each node now, to compare with later; ``None`` if pods are not known."""
        return Requested(self.names, self._load.requests) if self._load is not None else None

    def pods(self, row: int) -> tuple[Pod, ...]:
        """The pods on the node of that row."""
        if self._parent is not None and self._rows is not None:
            return self._parent.pods(int(self._rows[row]))
        if self._load is None:
            raise PodsUnknown("the list of pods on a node")
        return self._load.pods[row]

    def requested(self, row: int) -> Mapping[str, int]:
        """What the pods on the node of that row request, by resource."""
        if self._parent is not None and self._rows is not None:
            return self._parent.requested(int(self._rows[row]))
        if self._load is None:
            raise PodsUnknown("what pods request on a node")
        return only_read(self._load.requests[row])

    def _over_pods(
        self, per_node: Callable[[PodTable, int], NDArray[np.int64]], by: By | None
    ) -> NDArray[np.int64]:
        root, rows = self._root()
        load = root._load
        if load is None:
            raise PodsUnknown("counting pods")
        totals = per_node(load.tally, len(root))
        if by is not None:
            load.domains_read = True
            totals = over_domains(totals, root[column_of(by)])
        return totals if rows is None else totals[rows]

    def _counted_in_cases(
        self, where: Condition, by: By, before: PodTable, now: PodTable
    ) -> NDArray[np.int64]:
        """As `count` with ``by``, where each node sees only its own pods changed (`Snapshot.cases`)."""
        root, rows = self._root()
        unchanged = before.count(where, len(root))
        domains = over_domains(unchanged, root[column_of(by)])
        totals = np.where(domains < 0, domains, domains + now.count(where, len(root)) - unchanged)
        return totals if rows is None else totals[rows]

    def _root(self) -> "tuple[NodeTable, NDArray[np.intp] | None]":
        """The root table, and this table's rows in it; ``None`` for all rows."""
        # `take` makes a part of the root even from a part: a parent has no parent.
        return (self, None) if self._parent is None else (self._parent, self._rows)

    @property
    def resources(self) -> list[str]:
        """All resources that a node of this table has, the native ones first."""
        found: set[str] = set()
        for node in self.objects:
            if node.status is not None:
                found.update(node.status.allocatable or (), node.status.capacity or ())
        return [*NATIVE_RESOURCES, *sorted(filter(is_resource, found - set(NATIVE_RESOURCES)))]

    @property
    def read_of_objects(self) -> list[Column]:
        """The columns that were read from Node objects alone, such as labels."""
        return list(self._root()[0]._kept.static)

    @property
    def resources_read(self) -> list[str]:
        """The resources of which a column was read, whether or not a node has them."""
        kept = self._root()[0]._kept
        of_nodes = [column.name for column in kept.static if isinstance(column, Resource)]
        return list(dict.fromkeys([*of_nodes, *(name.rpartition(".")[0] for name in kept.named)]))

    @property
    def column_names(self) -> list[str]:
        """The names of all named columns."""
        return column_names(self.resources, ASPECTS if self.pods_known else ASPECTS[:2])

    def _named(self, name: str) -> Any:
        if name in FLAGS:
            return self._declared(FLAGS[name])
        if name in LABELS:
            return self._declared(LABELS[name])
        resource = split_resource(name)
        if resource is None:
            raise unknown_column(name, self.resources)
        if resource[1] in ("allocatable", "capacity"):
            return self._declared(Resource(*resource))
        return self._of_pods(name, *resource)

    def _declared(self, column: Column) -> Values:
        if self._parent is None:
            self._kept.last_read.note(column)
        values = self._kept.static.get(column)
        if values is None:
            if self._like is not None:
                values = sliced(self._like[0]._declared(column), self._like[1])
            elif self._parent is None or self._rows is None:
                values = column.read(self._objects)
            else:
                values = sliced(self._parent._declared(column), self._rows)
            if isinstance(values, np.ndarray):
                values.flags.writeable = False
            self._kept.static[column] = values
        return values

    def _free_units(self, units: Units) -> NDArray[np.int64]:
        if self._parent is None:
            self._kept.last_read.note(units)
        values = self._kept.units.get(units)
        if values is None:
            if self._parent is not None and self._rows is not None:
                values = self._parent._free_units(units).take(self._rows, axis=0)
            elif self._load is None:
                raise PodsUnknown(units.title)
            else:
                values = units.read_loaded(self._objects, self._load.pods)
            values.flags.writeable = False
            self._kept.units[units] = values
        return values

    def _of_placed(self, column: PodColumn) -> NDArray[Any]:
        if self._parent is None:
            self._kept.last_read.note(column)
        values = self._kept.of_load.get(column)
        if values is None:
            if self._parent is not None and self._rows is not None:
                values = self._parent._of_placed(column)[self._rows]
            elif self._load is None:
                raise PodsUnknown(column.title)
            else:
                values = column.read_pods(self._load.pods)
            values.flags.writeable = False
            self._kept.of_load[column] = values
        return values

    def _from_source(self, column: Source | Latch) -> Values:
        root, rows = self._root()
        reading = root._readings.of(column)
        root._kept.last_read.note(column)
        known = root._kept.sourced.get(column)
        if known is None or known[0] is not reading:
            keys = root._declared(reading.keys)
            assert isinstance(keys, Strings)
            values = reading.over(column, keys)
            if isinstance(values, np.ndarray):
                values.flags.writeable = False
            known = root._kept.sourced[column] = (reading, values)
        return known[1] if rows is None else sliced(known[1], rows)

    def _of_pods(self, name: str, resource: str, aspect: str) -> NDArray[Any]:
        if self._parent is None:
            self._kept.last_read.note(name)
        values = self._kept.named.get(name)
        if values is None:
            if self._parent is not None and self._rows is not None:
                values = self._parent._of_pods(name, resource, aspect)[self._rows]
            elif self._load is None:
                raise PodsUnknown(f"column {name!r}")
            elif aspect == "requested":
                used = [requests.get(resource, 0) for requests in self._load.requests]
                values = np.array(used, dtype=np.int64)
            else:
                values = self[f"{resource}.allocatable"] - self[f"{resource}.requested"]
            values.flags.writeable = False
            self._kept.named[name] = values
        return values

    def __repr__(self) -> str:
        return f"NodeTable({len(self)} nodes)"


@lru_cache(maxsize=8)
def _every_row(count: int) -> NDArray[np.uint32]:
    """The rows of a table of that many nodes: entries of the journal share them, as they share its names."""
    rows = np.arange(count, dtype=np.uint32)
    rows.flags.writeable = False
    return rows
