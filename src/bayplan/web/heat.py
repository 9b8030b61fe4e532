"""The values behind the heat map: a column of the cluster, or how often nodes were refused."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.engine.decision import NOBODY
from bayplan.engine.entry import Entry
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.columns import Column, Values
from bayplan.snapshot.sources import SourceMissing
from bayplan.snapshot.strings import Strings
from bayplan.snapshot.table import NodeTable
from bayplan.snapshot.units import Units
from bayplan.web.amounts import amount

REFUSALS = "refusals"
STEPS = 9
KINDS = 8
MISSING = -1
_ENTRIES = 500
_RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods")


@dataclass(frozen=True)
class Heat:
    """One value a node, with a step of the scale for each."""

    steps: NDArray[np.int64]
    """0 to `STEPS` - 1 of numbers, a kind of texts; `MISSING` where the node has none."""
    texts: list[str]
    values: NDArray[np.float64] | None = None
    """Of numbers: the values themselves."""
    kinds: tuple[str, ...] = ()
    """Of texts: the values, by kind; the last kind is all that are left."""
    low: str = ""
    high: str = ""


def choices(nodes: NodeTable, declared: Sequence[Column | Units]) -> dict[str, str | Column]:
    """What a heat map can show, by the name that people choose it by."""
    found: dict[str, str | Column] = {}
    for name in nodes.column_names:
        resource, _, aspect = name.rpartition(".")
        if resource in _RESOURCES and aspect == "capacity":
            continue
        found[name] = name
    found |= {column.title: column for column in declared if not isinstance(column, Units) and _shown(column)}
    return found | {REFUSALS: REFUSALS}


def read(cluster: Snapshot, column: str | Column, entries: Sequence[Entry]) -> Heat | None:
    """The values of a column; ``None`` where nobody knows them now."""
    if column == REFUSALS:
        return _numbers(REFUSALS, _refusals(cluster, entries).astype(np.float64))
    values: Values | None = None
    with contextlib.suppress(SourceMissing):
        values = cluster.nodes[column]
    if values is None:
        return None
    if isinstance(values, Strings):
        return _texts(values)
    title = column if isinstance(column, str) else column.title
    return _numbers(title, values.astype(np.float64))


def _shown(column: Column) -> bool:
    # Annotations may hold anything, and so they are never shown.
    return not column.title.startswith("NodeAnnotation(")


def _refusals(cluster: Snapshot, entries: Sequence[Entry]) -> NDArray[np.int64]:
    """How often each node was refused in the last decisions."""
    by_names: dict[int, tuple[Sequence[str], NDArray[np.int64]]] = {}
    for entry in [entry for entry in entries if entry.verb == "filter"][:_ENTRIES]:
        _, counts = by_names.setdefault(
            id(entry.names), (entry.names, np.zeros(len(entry.names), dtype=np.int64))
        )
        counts[entry.rows[entry.refused_by != NOBODY]] += 1
    found = np.zeros(len(cluster.nodes), dtype=np.int64)
    for names, counts in by_names.values():
        rows = cluster.find(names)
        known = rows >= 0
        found[rows[known]] += counts[known]
    return found


def _numbers(title: str, values: NDArray[np.float64]) -> Heat:
    there = np.isfinite(values)
    texts = [
        amount(title, value) if ok else "" for value, ok in zip(values.tolist(), there.tolist(), strict=True)
    ]
    if not there.any():
        return Heat(np.full(len(values), MISSING), texts)
    low, high = float(values[there].min()), float(values[there].max())
    span = high - low
    part = (np.where(there, values, low) - low) / span if span > 0 else np.zeros(len(values))
    steps = np.minimum((part * STEPS).astype(np.int64), STEPS - 1)
    shown = np.where(there, steps, MISSING)
    return Heat(shown, texts, values, low=amount(title, low), high=amount(title, high))


def _texts(values: Strings) -> Heat:
    counts = np.bincount(values.codes[values.present], minlength=len(values.values))
    ranked = np.argsort(-counts, kind="stable").tolist()
    kinds = np.full(len(values.values) + 1, KINDS - 1)
    kinds[ranked[: KINDS - 1]] = np.arange(len(ranked[: KINDS - 1]))
    kinds[-1] = MISSING
    names = [values.values[code] for code in ranked[: KINDS - 1] if counts[code]]
    if len(ranked) > KINDS - 1:
        names.append(f"{len(ranked) - KINDS + 1} others")
    texts = [values[row] or "" for row in range(len(values))]
    # A node without the label has code -1: the last place.
    return Heat(kinds[values.codes], texts, kinds=tuple(names))
