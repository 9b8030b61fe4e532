"""What a column holds, in a line: type, unit, range, meaning."""

from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from bayplan.snapshot.columns import FLAGS, LABELS, Column, Label, NodeAnnotation, Values, split_resource
from bayplan.snapshot.strings import Strings
from bayplan.snapshot.table import NodeTable

_MEANINGS = {
    "allocatable": "that pods may use",
    "capacity": "that the node has",
    "requested": "that the pods on the node request",
    "free": "that is left to request: allocatable - requested",
}
_MEANINGS_OF_PODS = {
    "allocatable": "how many pods the node may run",
    "capacity": "how many pods the node has room for",
    "requested": "how many pods are on the node",
    "free": "how many more pods fit: allocatable - requested",
}
_UNITS = {"cpu": "milli-CPU", "memory": "bytes", "ephemeral-storage": "bytes", "pods": "pods"}


class Found(msgspec.Struct, frozen=True):
    """What the nodes at hand have in a column."""

    values: str = ""
    """For people."""
    min: int | float | UnsetType = UNSET
    max: int | float | UnsetType = UNSET
    missing: int | UnsetType = UNSET
    """Nodes without a value."""
    distinct: int | UnsetType = UNSET
    """Different values."""


class ColumnInfo(msgspec.Struct, frozen=True):
    """One line of ``bayplan columns``."""

    column: str
    """What stands in the brackets of ``nodes[...]``: a name, or the code of a typed column."""
    type: str
    unit: str
    values: str
    """What is found in the cluster at hand."""
    meaning: str
    min: int | float | UnsetType = UNSET
    max: int | float | UnsetType = UNSET
    missing: int | UnsetType = UNSET
    distinct: int | UnsetType = UNSET
    unreadable: dict[str, str] = {}
    """The text of each node where it is there and is not of the type."""


def describe(nodes: NodeTable, declared: Sequence[Column], *, example: bool = False) -> list[ColumnInfo]:
    """Every column with a name of its own, then the declared ones."""
    infos = [_named(nodes, name, example=example) for name in nodes.column_names]
    return infos + [_declared(nodes, column, example=example) for column in declared]


def _named(nodes: NodeTable, name: str, *, example: bool) -> ColumnInfo:
    values = nodes[name]
    resource = split_resource(name)
    if resource is None:
        column = FLAGS.get(name) or LABELS[name]
        return _info(name, values, "", column.meaning, example=example)
    unit = _UNITS.get(resource[0], "units")
    meaning = f"{resource[0]} {_MEANINGS[resource[1]]}"
    if resource[0] == "pods":
        meaning = _MEANINGS_OF_PODS[resource[1]]
    return _info(name, values, unit, meaning, example=example)


def _declared(nodes: NodeTable, column: Column, *, example: bool) -> ColumnInfo:
    unreadable: dict[str, str] = {}
    title = column.title
    if isinstance(column, Label | NodeAnnotation):
        title = _code(column)
        wrong = set(column.unreadable(nodes.objects))
        unreadable = {n.name: column.texts(n)[column.key] for n in nodes.objects if n.name in wrong}
    return _info(title, nodes[column], "", column.meaning, example=example, unreadable=unreadable)


def _info(
    column: str,
    values: Values,
    unit: str,
    meaning: str,
    *,
    example: bool,
    unreadable: dict[str, str] | None = None,
) -> ColumnInfo:
    found = Found() if example else _found(values)
    return ColumnInfo(
        column,
        "text" if isinstance(values, Strings) else str(values.dtype),
        unit,
        found.values,
        meaning,
        found.min,
        found.max,
        found.missing,
        found.distinct,
        unreadable or {},
    )


def _code(column: Label | NodeAnnotation) -> str:
    """``Label("example.com/price", float)``: as a policy writes it."""
    options = "" if column.type is str else f", {column.type.__name__}"
    options += "" if column.default is None else f", {column.default!r}"
    key = msgspec.json.encode(column.key).decode()
    return f"{column.kind}({key}{options})"


def _found(values: Values) -> Found:
    if isinstance(values, Strings):
        return _texts(values)
    if values.dtype == np.bool_:
        return Found(f"true on {int(values.sum())} of {len(values)}")
    there = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    missing = len(values) - there.size if values.dtype.kind == "f" else UNSET
    if not there.size:
        return Found("no node has it", missing=missing)
    low, high = there.min().item(), there.max().item()
    shown = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    return Found(shown + _without(missing or 0), low, high, missing, len(np.unique(there)))


def _texts(values: Strings) -> Found:
    # A table of some rows may know values that none of them has.
    different = sorted({values.values[code] for code in set(values.codes[values.present].tolist())})
    missing = int((~values.present).sum())
    if not different:
        return Found("no node has it", missing=missing, distinct=0)
    more = f", … {len(different)} in all" if len(different) > 4 else ""
    shown = f"{', '.join(different[:4])}{more}{_without(missing)}"
    return Found(shown, missing=missing, distinct=len(different))


def _without(missing: int) -> str:
    return f" ({missing} node{'' if missing == 1 else 's'} without)" if missing else ""
