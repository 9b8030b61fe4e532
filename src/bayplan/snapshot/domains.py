"""Domains are groups of nodes, such as the nodes of one rack; and totals over domains."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.kube.node import NodeObject
from bayplan.kube.yaml import suggest
from bayplan.snapshot.columns import LABELS, Column, Label, Values
from bayplan.snapshot.saturate import add_up
from bayplan.snapshot.strings import Strings

By = str | Column | Sequence[str | Column]

EACH_NODE = "node"
# No label value contains it, so that different combinations of values give different texts.
_SEPARATOR = "\0"


@dataclass(frozen=True)
class Together:
    """Several text columns as one: two nodes are in one domain if all of the columns are equal."""

    columns: tuple[Column, ...]

    @property
    def title(self) -> str:
        """Its name in errors and in ``bayplan columns``."""
        return " with ".join(column.title for column in self.columns)

    @property
    def meaning(self) -> str:
        """One line for ``bayplan columns``."""
        return "; ".join(column.meaning for column in self.columns)

    def read(self, nodes: list[NodeObject]) -> Values:
        """One text per node; absent if any of the columns is absent."""
        parts = [_texts(column.read(nodes)) for column in self.columns]
        rows = zip(*([part[row] for row in range(len(nodes))] for part in parts), strict=True)
        return Strings.intern(
            None if None in row else _SEPARATOR.join(text for text in row if text is not None) for row in rows
        )


def domain(by: str | Sequence[str]) -> Column | None:
    """The column for ``by`` in a policy's arguments, to be passed to ``nodes.count(by=...)``.

    A text is the key of a label or a short name such as ``zone``; several texts are one domain together.
    ``node``, or an empty list, gives ``None``: each node by itself.
    """
    keys = (by,) if isinstance(by, str) else tuple(by)
    if keys in ((), (EACH_NODE,)):
        return None
    columns = tuple(LABELS.get(key) or Label(key) for key in keys)
    return columns[0] if len(columns) == 1 else Together(columns)


def column_of(by: By) -> Column:
    """The column that says which domain a node is in."""
    if isinstance(by, str):
        return _named(by)
    if not isinstance(by, Sequence):
        return by
    columns = tuple(_named(column) if isinstance(column, str) else column for column in by)
    if not columns:
        raise TypeError("by= wants at least one column; leave it out to count each node by itself")
    return columns[0] if len(columns) == 1 else Together(columns)


def over_domains(totals: NDArray[np.int64], domains: Values) -> NDArray[np.int64]:
    """For each node the total over its domain; -1 for a node in no domain."""
    texts = _texts(domains)
    inside = texts.present
    once = np.ones(np.count_nonzero(inside), dtype=np.int64)
    sums = add_up(len(texts.values) + 1, [(texts.codes[inside], totals[inside], once)])
    # The code of an absent value is -1, which is the last index.
    sums[-1] = -1
    return sums[texts.codes]


def _texts(values: Values) -> Strings:
    if not isinstance(values, Strings):
        raise TypeError("by= wants a column of text, such as Label('rack')")
    return values


def _named(name: str) -> Column:
    column = LABELS.get(name)
    if column is None:
        raise TypeError(f"by= knows no column {name!r}{suggest(name, LABELS)}; a label is Label({name!r})")
    return column
