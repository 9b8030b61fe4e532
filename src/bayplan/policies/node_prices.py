"""What nodes cost: by a label of their own, by a table, by a source. `Cost` is on this."""

from collections.abc import Callable
from functools import lru_cache
from itertools import combinations, product
from typing import Annotated, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from bayplan import Args, Label, NodeTable, Snapshot, Source
from bayplan.blocks import ResourceArgs, Scope

Floats = NDArray[np.float64]
Text = Annotated[str, msgspec.Meta(min_length=1)]
HIGHEST = 1_000_000_000
Price = Annotated[float, msgspec.Meta(ge=0, le=HIGHEST)]
Capacity = Literal["spot", "on-demand"]
_Key = tuple[str | None, str | None, str | None]


class PodClass(Args):
    """Which capacity a class of pods goes to."""

    pods: Scope = Scope()
    """The pods of the class; all where it is left out."""
    prefer: Capacity | None = None
    """Nodes of this kind as long as there are any."""
    require: Capacity | None = None
    """Nodes of this kind only."""

    def __post_init__(self) -> None:
        if (self.prefer is None) is (self.require is None):
            raise ValueError("a class has one of `prefer` and `require`")


class CapacityType(Args):
    """How spot nodes are told from others, and which pods go there."""

    label: Text = "karpenter.sh/capacity-type"
    """The node label that says it."""
    spot: Annotated[tuple[Text, ...], msgspec.Meta(min_length=1)] = ("spot",)
    """Values of it that mean spot; every other node is on-demand, also one without the label."""
    classes: tuple[PodClass, ...] = ()
    """The first that a pod belongs to is heeded."""


class PriceRow(Args):
    """The price of some nodes. What is left out is any."""

    per_hour: Price
    """What such a node costs in an hour."""
    instance_type: Text | None = None
    """``node.kubernetes.io/instance-type`` of the node."""
    zone: Text | None = None
    """``topology.kubernetes.io/zone`` of the node."""
    capacity_type: Capacity | None = None
    """``spot`` or ``on-demand``, told apart by ``capacityType``."""

    @property
    def key(self) -> _Key:
        """What a node must have, with ``None`` for any."""
        return self.instance_type, self.zone, self.capacity_type


class PriceArgs(ResourceArgs):
    """Where prices come from. The first that has one for a node says it: label, table, source."""

    price_label: Text | None = None
    """The node label that has the price of the node in an hour."""
    table: tuple[PriceRow, ...] = ()
    """Prices by instance type, zone and capacity type; the row that says most of a node is the one."""
    price_source: Text | None = None
    """A source, or one column of it, that has the prices."""
    on_missing: Literal["pass", "refuse", "dearest"] = "pass"
    """Nodes without a price: no word about them, never used, or as dear as the dearest."""
    capacity_type: CapacityType = CapacityType()
    """How spot nodes are told from others, and which pods go there."""

    def __post_init__(self) -> None:
        ResourceArgs.__post_init__(self)
        if any(resource.name == "pods" for resource in self.resources):
            raise ValueError("resources: no pod requests `pods`, so they are no share of a node")
        _check_ties(self.table)

    @property
    def priced(self) -> bool:
        """Whether any prices are known at all."""
        return bool(self.price_label or self.table or self.price_source)


class NodePrices:
    """The price of each node in an hour."""

    def __init__(self, args: PriceArgs) -> None:
        self._dearest = args.on_missing == "dearest"
        self._label = Label(args.capacity_type.label)
        self._spot = args.capacity_type.spot
        self._prices = {row.key: row.per_hour for row in args.table}
        self._grid = lru_cache(maxsize=8)(self._lay_out)
        columns: list[Label | Source] = [Label(args.price_label, float)] if args.price_label else []
        self._readers: list[Callable[[NodeTable], Floats]] = [self._reader(column) for column in columns]
        if self._prices:
            self._readers.append(self._from_table)
        if self._prices or args.capacity_type.classes:
            columns.append(self._label)
        self.topics: frozenset[str] = frozenset()
        """The topics that prices depend on, for `Reason.helped_by`."""
        if args.price_source:
            source = Source(args.price_source)
            columns.append(source)
            self._readers.append(self._reader(source))
            self.topics = frozenset({f"source:{source.source}"})
        self.columns = columns
        """The columns that are read, for `bayplan columns`."""

    def of(self, nodes: NodeTable, cluster: Snapshot) -> Floats:
        """The price of each node; NaN if it has none."""
        prices = self._known(nodes)
        if self._dearest and np.isnan(prices).any():
            # Over all nodes of the cluster, since at bind the table has only one.
            every = self._known(cluster.nodes)
            most = every.max(initial=-1.0, where=~np.isnan(every))
            prices = np.where(np.isnan(prices) & (most >= 0), most, prices)
        return prices

    def spot(self, nodes: NodeTable) -> NDArray[np.bool_]:
        """Which nodes are spot."""
        found: NDArray[np.bool_] = nodes[self._label].isin(self._spot)
        return found

    def _known(self, nodes: NodeTable) -> Floats:
        if not self._readers:
            return np.full(len(nodes), np.nan)
        first, *others = self._readers
        prices = first(nodes)
        for read in others:
            missing = np.isnan(prices)
            if missing.any():
                prices = np.where(missing, read(nodes), prices)
        return prices

    def _reader(self, column: Label | Source) -> Callable[[NodeTable], Floats]:
        def read(nodes: NodeTable) -> Floats:
            said = nodes[column]
            return np.where((said >= 0.0) & (said <= HIGHEST), said, np.nan)

        return read

    def _from_table(self, nodes: NodeTable) -> Floats:
        types, zones = nodes["instance-type"], nodes["zone"]
        grid = self._grid(types.values, zones.values)
        # The code of an absent value is -1, which indexes the last element.
        found: Floats = grid[types.codes, zones.codes, self.spot(nodes).astype(np.intp)]
        return found

    def _lay_out(self, types: tuple[str, ...], zones: tuple[str, ...]) -> Floats:
        """A table with the price of every combination, to look up all nodes at once."""
        grid = np.full((len(types) + 1, len(zones) + 1, 2), np.nan)
        for (row, kind), (column, zone) in product(enumerate((*types, None)), enumerate((*zones, None))):
            for place, capacity in enumerate(("on-demand", "spot")):
                grid[row, column, place] = self._price((kind, zone, capacity))
        return grid

    def _price(self, node: _Key) -> float:
        rows = product(*({value, None} for value in node))
        found = [row for row in rows if row in self._prices]
        return self._prices[max(found, key=_said)] if found else np.nan


def _said(key: _Key) -> int:
    """How many conditions a row has."""
    return sum(value is not None for value in key)


def _check_ties(rows: tuple[PriceRow, ...]) -> None:
    """Raise `ValueError` if two rows match one node with equally many conditions."""
    keys = [row.key for row in rows]
    known = set(keys)
    if len(known) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"table: two rows for {_words(twice)}; keep one")
    by_shape: dict[tuple[bool, ...], list[_Key]] = {}
    for key in keys:
        by_shape.setdefault(tuple(value is None for value in key), []).append(key)
    for one, other in combinations(by_shape, 2):
        if sum(one) == sum(other):
            for first, second in product(by_shape[one], by_shape[other]):
                _check_tie(first, second, known)


def _check_tie(first: _Key, second: _Key, known: set[_Key]) -> None:
    if any(a != b for a, b in zip(first, second, strict=True) if a is not None and b is not None):
        return
    instance_type, zone, capacity = (a or b for a, b in zip(first, second, strict=True))
    if (both := (instance_type, zone, capacity)) not in known:
        raise ValueError(
            f"table: the rows for {_words(first)} and for {_words(second)} say as much of one node;"
            f" add a row for {_words(both)}"
        )


def _words(key: _Key) -> str:
    names = zip(("instanceType", "zone", "capacityType"), key, strict=True)
    return ", ".join(f"{name} {value}" for name, value in names if value is not None) or "any node"
