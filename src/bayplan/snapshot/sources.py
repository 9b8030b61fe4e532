"""Sources as columns, ``nodes[Source("p95")]``: values from outside the cluster.

`bayplan.state.sources` collects the values; here are frozen readings, the last values of each source by node.
A value that is missing, or older than its source allows, is NaN.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bayplan.kube.node import NodeObject
from bayplan.kube.yaml import suggest
from bayplan.snapshot.bynode import Scalar, floats, numbers, places, texts
from bayplan.snapshot.columns import Values
from bayplan.snapshot.strings import Strings

Match = Literal["name", "internalIP", "hostname"]
# Latched keys without a value are dropped above this number plus ten times the keys with a value: an outage
# alone does not explain so many.
_SILENT = 1_000
_TYPES = {float: "number", str: "text", bool: "true or false"}


class SourceMissing(LookupError):
    """A policy reads a source that is not configured."""


@dataclass(frozen=True)
class Source:
    """A source's values as a column: ``nodes[Source("p95")]``, ``nodes[Source("inventory.owner", str)]``.

    The second is one field of a source that has several values for each node. Numbers are floats, with NaN
    where a value is missing or too old, and 1 for true; with ``str`` it is text, `Strings`.
    """

    name: str
    type: type = float

    def __post_init__(self) -> None:
        if not self.name:
            raise TypeError("Source: a name is needed, such as Source('p95')")
        if self.type not in _TYPES:
            raise TypeError(f"{self.title}: type must be float, str or bool, not {self.type!r}")

    @property
    def title(self) -> str:
        """Its name in errors and in ``bayplan columns``."""
        return f"Source({self.name!r})"

    @property
    def meaning(self) -> str:
        """One line for ``bayplan columns``."""
        return f"what the source {self.source} says of the node, read as {_TYPES[self.type]}"

    @property
    def source(self) -> str:
        """The name of the source."""
        return self.name.partition(".")[0]

    @property
    def field(self) -> str:
        """The field of the source; `PLAIN` if the source has one value per node."""
        return self.name.partition(".")[2]

    def latched(self, *, above: float, below: float) -> "Latch":
        """A bool column that does not flap: true from above ``above`` until below ``below``."""
        return Latch(self, above, below)


@dataclass(frozen=True)
class Latch:
    """A bool column that does not flap: it turns on above one value and off below another."""

    column: Source
    above: float
    below: float

    def __post_init__(self) -> None:
        if not self.below <= self.above:
            raise ValueError(f"{self.title}: `below` must not be higher than `above`")

    @property
    def title(self) -> str:
        """Its name in errors and in ``bayplan columns``."""
        return f"{self.column.title}.latched(above={self.above:g}, below={self.below:g})"

    @property
    def meaning(self) -> str:
        """One line for ``bayplan columns``."""
        return f"{self.column.name} went above {self.above:g} and has not been below {self.below:g} since"

    @property
    def source(self) -> str:
        """The name of the source."""
        return self.column.source

    @property
    def field(self) -> str:
        """The field of the source."""
        return self.column.field

    def after(self, numbers: Mapping[str, float], before: frozenset[str]) -> frozenset[str]:
        """The keys that are on now, after those on ``before``; a key without a number stays as it was."""
        on = {key for key, number in numbers.items() if number > self.above}
        stay = {key for key in before if not numbers.get(key, self.below) < self.below}
        silent = stay.difference(numbers)
        if numbers and len(silent) > _SILENT + 10 * len(numbers):
            # Most keys without a number are nodes that are gone.
            stay -= silent
        return frozenset(on | stay)


class Requested:
    """What the pods on each node requested at one time. Small, since it outlives its table."""

    def __init__(self, names: Sequence[str], requests: Sequence[Mapping[str, int]]) -> None:
        self.names = names
        self.requests = requests
        self._columns: dict[str, NDArray[np.int64]] = {}

    def over(self, names: Sequence[str], resource: str) -> NDArray[np.int64]:
        """What was requested on the nodes of these names; 0 for an unknown node."""
        column = self._columns.get(resource)
        if column is None:
            column = np.array([requests.get(resource, 0) for requests in self.requests], dtype=np.int64)
            self._columns[resource] = column
        if names == self.names:
            return column
        rows = {name: row for row, name in enumerate(self.names)}
        places = np.array([rows.get(name, -1) for name in names], dtype=np.intp)
        padded = np.append(column, 0)
        found: NDArray[np.int64] = padded[places]
        return found


@dataclass(frozen=True)
class Reading:
    """The values of a source at one time, by field and by node."""

    fields: Mapping[str, Mapping[str, Scalar]]
    version: int = 0
    """Differs between two readings of the same source."""
    match: Match = "name"
    """What the keys are: names, internal IPs or host names of nodes."""
    latched: Mapping[Latch, frozenset[str]] = field(default_factory=dict)
    before: "Requested | None" = None
    """What pods requested when the values were measured; ``None`` if pods are not known."""
    missed: set[str] = field(default_factory=set, compare=False)
    """Fields that a policy read and the reading lacks: mistyped, or without a value on any node now."""

    @cached_property
    def laid_out(self) -> Mapping[str, "LaidOut"]:
        """The fields as lists, made on first use; an `Asker` makes them at once."""
        return {name: LaidOut(values) for name, values in self.fields.items()}

    @property
    def keys(self) -> "Keys":
        """The column of the keys by which the reading knows nodes."""
        return Keys(self.match)

    def read(self, column: Source | Latch, nodes: Iterable[NodeObject]) -> Values:
        """The column's values, one per node."""
        return self.over(column, self.keys.read(list(nodes)))

    def over(self, column: Source | Latch, keys: Strings) -> Values:
        """The column's values, one for each of these keys."""
        if column.field not in self.fields:
            self.missed.add(column.field)
        if isinstance(column, Latch):
            on = self.latched.get(column)
            if on is None:
                on = column.after(numbers(self.fields.get(column.field, {})), frozenset())
            return places(on, keys) >= 0
        laid_out = self.laid_out.get(column.field, _NOTHING)
        if len(keys.values) < len(laid_out.names):
            values = self.fields[column.field]
            laid_out = LaidOut({key: values[key] for key in keys.values if key in values})
        at = places(laid_out.names, keys)
        return texts(laid_out.values, at) if column.type is str else laid_out.numbers[at]


class LaidOut:
    """One field of a reading as parallel lists: keys, values, and the values as numbers."""

    def __init__(self, values: Mapping[str, Scalar]) -> None:
        self.names = list(values)
        self.values = list(values.values())

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        """The values as numbers, NaN for those that are none, and one more NaN at the end."""
        return floats(self.values)


_NOTHING = LaidOut({})


@dataclass(frozen=True)
class Readings:
    """The last reading of each source."""

    by_source: Mapping[str, Reading] = field(default_factory=dict)

    def of(self, column: Source | Latch) -> Reading:
        """The reading of the column's source; raises `SourceMissing` if there is no such source."""
        found = self.by_source.get(column.source)
        if found is None:
            hint = suggest(column.source, self.by_source) if self.by_source else "; there are none"
            raise SourceMissing(f"{column.title}: no source {column.source!r}{hint}")
        return found

    def with_readings(self, more: Mapping[str, Reading]) -> "Readings":
        """A copy with these readings added or replaced."""
        return Readings({**self.by_source, **more}) if more else self


NO_READINGS = Readings()


@dataclass(frozen=True)
class Keys:
    """The column of the keys by which a source knows nodes."""

    match: Match

    @property
    def title(self) -> str:
        """Its name in errors."""
        return f"Keys({self.match!r})"

    @property
    def meaning(self) -> str:
        """One line of description."""
        return "the name under which sources know the node"

    def read(self, nodes: list[NodeObject]) -> Strings:
        """One key per node."""
        return Strings.intern(key_of(node, self.match) for node in nodes)


def key_of(node: NodeObject, match: Match) -> str:
    """The key by which a source knows the node."""
    if match == "internalIP":
        return node.internal_ip
    if match == "hostname":
        return node.labels.get("kubernetes.io/hostname", node.name)
    return node.name
