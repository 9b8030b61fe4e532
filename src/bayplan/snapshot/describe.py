"""What a column holds, in a line: type, unit, range, meaning."""

from collections.abc import Sequence

import msgspec
import numpy as np

from bayplan.snapshot.columns import FLAGS, LABELS, Column, Label, NodeAnnotation, Values, split_resource
from bayplan.snapshot.strings import Strings
from bayplan.snapshot.table import NodeTable

_MEANINGS = {
    "allocatable": "that pods may use",
    "capacity": "that the node has",
    "requested": "that the pods on the node request",
    "free": "that is left to request: allocatable - requested",
}
_UNITS = {"cpu": "milli-CPU", "memory": "bytes", "ephemeral-storage": "bytes", "pods": "pods"}


class ColumnInfo(msgspec.Struct, frozen=True):
    """One line of ``bayplan columns``."""

    column: str
    type: str
    unit: str
    values: str
    """What is found in the cluster at hand."""
    meaning: str
    unreadable: list[str] = []
    """Nodes whose text is there and is not of the type."""


def describe(nodes: NodeTable, declared: Sequence[Column], *, example: bool = False) -> list[ColumnInfo]:
    """Every column with a name of its own, then the declared ones."""
    infos = [_named(nodes, name, example=example) for name in nodes.column_names]
    return infos + [_declared(nodes, column, example=example) for column in declared]


def _named(nodes: NodeTable, name: str, *, example: bool) -> ColumnInfo:
    values = nodes[name]
    found = "" if example else _range(values)
    resource = split_resource(name)
    if resource is None:
        column = FLAGS.get(name) or LABELS[name]
        return ColumnInfo(name, _type(values), "", found, column.meaning)
    unit = _UNITS.get(resource[0], "units")
    return ColumnInfo(name, _type(values), unit, found, f"{resource[0]} {_MEANINGS[resource[1]]}")


def _declared(nodes: NodeTable, column: Column, *, example: bool) -> ColumnInfo:
    values = nodes[column]
    unreadable = column.unreadable(nodes.objects) if isinstance(column, Label | NodeAnnotation) else []
    found = "" if example else _range(values)
    return ColumnInfo(column.title, _type(values), "", found, column.meaning, unreadable)


def _type(values: Values) -> str:
    return "text" if isinstance(values, Strings) else str(values.dtype)


def _range(values: Values) -> str:
    if isinstance(values, Strings):
        some = ", ".join(sorted(values.values)[:4])
        missing = int((~values.present).sum())
        more = f", … {len(values.values)} in all" if len(values.values) > 4 else ""
        return f"{some}{more}{f' ({missing} nodes without)' if missing and some else ''}" or "no node has it"
    if values.dtype == np.bool_:
        return f"true on {int(values.sum())} of {len(values)}"
    there = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    if not there.size:
        return "no node has it"
    low, high = there.min().item(), there.max().item()
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
