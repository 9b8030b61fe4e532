"""Describes each column in one line of ``bayplan columns``: type, unit, range, meaning."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from bayplan.kube.written import BYTES, CPU, unit_of
from bayplan.snapshot.columns import FLAGS, LABELS, Column, Label, NodeAnnotation, Values, split_resource
from bayplan.snapshot.strings import Strings
from bayplan.snapshot.table import NodeTable
from bayplan.snapshot.units import NO_DEVICE, Units

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
READ_AS: dict[type, str] = {float: "a number", int: "a whole number", bool: "true or false"}
_SHOWN = 5
_UNITS = {CPU: "milli-CPU", BYTES: "bytes"}


def said_unreadable(texts: Mapping[str, str], read_as: str) -> str:
    """A message about texts of nodes that cannot be read as the column's type; ``texts`` are by node."""
    some = [f"{text!r} on {node}" for node, text in list(texts.items())[:_SHOWN]]
    more = f" and {len(texts) - len(some)} more" if len(texts) > len(some) else ""
    count = "it counts" if len(texts) == 1 else "they count"
    return f"{', '.join(some)}{more} cannot be read as {read_as}; {count} as missing"


class ColumnInfo(msgspec.Struct, frozen=True, rename="camel"):
    """One line of ``bayplan columns``."""

    column: str
    """What a policy writes in ``nodes[...]``: a name, or the code of a typed column."""
    type: str
    unit: str
    values: str
    """The values in the given cluster, in words."""
    meaning: str
    min: int | float | UnsetType = UNSET
    max: int | float | UnsetType = UNSET
    missing: int | UnsetType = UNSET
    """The number of nodes without a value, for columns in which a value may be missing."""
    distinct: int | UnsetType = UNSET
    """The number of different values."""
    unreadable: dict[str, str] = {}
    """The texts that are not of the column's type, by node."""
    read_as: str | UnsetType = UNSET
    """The type of a typed column, in words."""


def describe(
    nodes: NodeTable, declared: Sequence[Column | Units], *, example: bool = False
) -> list[ColumnInfo]:
    """All named columns, then the declared ones."""
    infos = [_named(nodes, name, example=example) for name in nodes.column_names]
    return infos + [_declared(nodes, column, example=example) for column in declared]


def _named(nodes: NodeTable, name: str, *, example: bool) -> ColumnInfo:
    values = nodes[name]
    resource = split_resource(name)
    if resource is None:
        column = FLAGS.get(name) or LABELS[name]
        return _info(name, values, "", column.meaning, example=example)
    if resource[0] == "pods":
        return _info(name, values, "pods", _MEANINGS_OF_PODS[resource[1]], example=example)
    unit = _UNITS.get(unit_of(resource[0]), "units")
    return _info(name, values, unit, f"{resource[0]} {_MEANINGS[resource[1]]}", example=example)


def _declared(nodes: NodeTable, column: Column | Units, *, example: bool) -> ColumnInfo:
    if isinstance(column, Units):
        free = nodes[column]
        return _info(column.title, free[free != NO_DEVICE], "a device", column.meaning, example=example)
    info = _info(column.title, nodes[column], "", column.meaning, example=example)
    if not isinstance(column, Label | NodeAnnotation):
        return info
    wrong = set(column.unreadable(nodes.objects))
    return msgspec.structs.replace(
        info,
        column=_code(column),
        unreadable={n.name: column.texts(n)[column.key] for n in nodes.objects if n.name in wrong},
        read_as=READ_AS.get(column.type, "text"),
    )


def _info(column: str, values: Values, unit: str, meaning: str, *, example: bool) -> ColumnInfo:
    kind = "text" if isinstance(values, Strings) else str(values.dtype)
    info = ColumnInfo(column, kind, unit, "", meaning)
    return info if example else msgspec.structs.replace(info, **_found(values))


def _code(column: Label | NodeAnnotation) -> str:
    """``Label("example.com/price", float)``: as a policy writes it."""
    options = "" if column.type is str else f", {column.type.__name__}"
    options += "" if column.default is None else f", {column.default!r}"
    key = msgspec.json.encode(column.key).decode()
    return f"{column.kind}({key}{options})"


def _found(values: Values) -> dict[str, Any]:
    """The fields of `ColumnInfo` about the values of the nodes."""
    if isinstance(values, Strings):
        return _texts(values)
    if values.dtype == np.bool_:
        return {"values": f"true on {int(values.sum())} of {len(values)}"}
    if values.dtype.kind != "f":
        return _numbers(values)
    missing = int(np.isnan(values).sum())
    found = _numbers(values[~np.isnan(values)])
    return found | {"missing": missing, "values": found["values"] + _without(missing, found["distinct"])}


def _numbers(there: NDArray[Any]) -> dict[str, Any]:
    if not there.size:
        return {"values": "no node has it", "distinct": 0}
    low, high = there.min().item(), there.max().item()
    shown = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    return {"values": shown, "min": low, "max": high, "distinct": len(np.unique(there))}


def _texts(values: Strings) -> dict[str, Any]:
    # The column of a part of a table may know texts that none of its rows has.
    known = sorted(values.values[code] for code in np.unique(values.codes[values.present]).tolist())
    missing = int((~values.present).sum())
    more = f", … {len(known)} in all" if len(known) > 4 else ""
    shown = f"{', '.join(known[:4])}{more}{_without(missing, len(known))}" if known else "no node has it"
    return {"values": shown, "missing": missing, "distinct": len(known)}


def _without(missing: int, distinct: int) -> str:
    return f" ({missing} node{'' if missing == 1 else 's'} without)" if missing and distinct else ""
