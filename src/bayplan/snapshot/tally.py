"""The tally counts placed pods by kind and row, for policies that look at other pods.

Pods that are alike (namespace, labels, owner, requests, terms, ports) are of one *kind*; a cluster of 150,000
pods has some thousand kinds. To count the pods on each node that match a condition, the condition is
evaluated once per kind, and the counts are added up by one vector operation, whatever the number of pods.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from bayplan.kube.affinity import Affinity
from bayplan.kube.pod import HostPort, Pod
from bayplan.snapshot.saturate import add_up
from bayplan.snapshot.strings import Strings

Bools = NDArray[np.bool_]

# Each count goes through all changes since the last fold; a fold costs some 15 ms.
_FOLD = 4096
_COLUMNS_KEPT = 500


@dataclass(frozen=True)
class PodKind:
    """What all pods of one kind have in common."""

    namespace: str
    labels: Mapping[str, str]
    owner: str
    """UID of the controller, or ``""``."""
    requests: Mapping[str, int]
    affinity: Affinity
    """The terms about other pods; the terms about nodes may differ within a kind."""
    host_ports: tuple[HostPort, ...]
    terminating: bool
    affinity_text: bytes
    """The terms about other pods as one text, equal for equal terms."""


Fact = TypeVar("Fact")


class Condition(Protocol):
    """Says which pods to count."""

    def over(self, kinds: "PodKinds", count: int) -> Bools:
        """One bool for each of the first ``count`` kinds."""
        ...


class PodKinds:
    """The kinds of pods seen so far, numbered. It only grows, so that a number stays valid."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        self._kinds: list[PodKind] = []
        self._columns: dict[str, Strings] = {}
        self._amounts: dict[str, NDArray[np.int64]] = {}
        self._facts: dict[str, list[Any]] = {}
        self._kept: dict[str, Any] = {}
        # What-if copies are made in policy threads while the watch adds kinds.
        self._lock = threading.Lock()

    def number(self, pod: Pod) -> int:
        """The number of the pod's kind."""
        owner = pod.owner
        labels, requests = pod.labels, pod.requests
        key = (
            pod.namespace,
            tuple(sorted(labels.items())),
            owner.uid if owner else "",
            tuple(sorted(requests.items())),
            pod.affinity_text,
            pod.host_ports,
            pod.terminating,
        )
        known = self._numbers.get(key)
        if known is not None:
            return known
        kind = PodKind(
            pod.namespace,
            labels,
            key[2],
            requests,
            pod.affinity,
            pod.host_ports,
            pod.terminating,
            pod.affinity_text,
        )
        with self._lock:
            number = self._numbers.get(key)
            if number is None:
                # The number is published last: a reader that finds it, without the lock or after a deadline
                # that struck between the two lines, finds the kind too.
                number = len(self._kinds)
                self._kinds.append(kind)
                self._numbers[key] = number
        return number

    def only(self, numbers: NDArray[np.int64]) -> "PodKinds":
        """A new `PodKinds` with only these kinds, numbered in this order."""
        fewer = PodKinds()
        with self._lock:
            keys = {number: key for key, number in self._numbers.items()}
        for number in numbers.tolist():
            fewer._numbers[keys[number]] = len(fewer._kinds)
            fewer._kinds.append(self._kinds[number])
        return fewer

    def __len__(self) -> int:
        return len(self._kinds)

    def namespaces(self, count: int) -> Strings:
        """The namespace of each kind."""
        return self._texts("namespace", count, lambda kind: kind.namespace)

    def owners(self, count: int) -> Strings:
        """The UID of each kind's controller; absent for pods without one."""
        return self._texts("owner", count, lambda kind: kind.owner or None)

    def label(self, key: str, count: int) -> Strings:
        """One label of each kind."""
        return self._texts(f"label {key}", count, lambda kind: kind.labels.get(key))

    def terminating(self, count: int) -> Bools:
        """Whether pods of each kind are being deleted."""
        return self._texts("terminating", count, lambda kind: "" if kind.terminating else None).present

    def amounts(self, resource: str, count: int) -> NDArray[np.int64]:
        """What a pod of each kind requests of a resource."""
        known = self._amounts.get(resource)
        if known is None or len(known) < count:
            start = 0 if known is None else len(known)
            more = [kind.requests.get(resource, 0) for kind in self._kinds[start:]]
            fresh = np.array(more, dtype=np.int64)
            known = fresh if known is None else np.concatenate([known, fresh])
            self._amounts[resource] = known
        return known[:count]

    def facts(self, name: str, count: int, read: Callable[[PodKind], Fact]) -> list[Fact]:
        """A fact about at least the first ``count`` kinds; read once per kind and kept under its name."""
        known = self._facts.setdefault(name, [])
        if len(known) < count:
            # Two threads may be here at once: both write the same facts to the same places, and the thread
            # that read fewer kinds must not cut off what the other wrote.
            start = len(known)
            fresh = [read(kind) for kind in self._kinds[start:]]
            known[start : start + len(fresh)] = fresh
        return known

    def kept(self, name: str, make: Callable[[], Fact]) -> Fact:
        """A value kept together with the kinds, such as an index of them; made on first use."""
        known: Fact | None = self._kept.get(name)
        if known is None:
            known = self._kept.setdefault(name, make())
        return known

    def _texts(self, name: str, count: int, read: Callable[[PodKind], str | None]) -> Strings:
        known = self._columns.get(name)
        if known is None:
            if len(self._columns) >= _COLUMNS_KEPT:
                # Pods choose the labels that they ask about, so the number of columns has no bound. All are
                # dropped; those in use are computed again.
                self._columns = {}
            known = Strings.intern([read(kind) for kind in self._kinds[:count]])
            self._columns[name] = known
        elif len(known) < count:
            known = known.extended([read(kind) for kind in self._kinds[len(known) : count]])
            self._columns[name] = known
        return known if len(known) == count else known.with_codes(known.codes[:count])


@dataclass(frozen=True)
class _Entries:
    """Entries of a count: the kind's number, the row, and by how many pods the count changes."""

    numbers: NDArray[np.int32] | NDArray[np.int64]
    rows: NDArray[np.int32] | NDArray[np.int64]
    counts: NDArray[np.int64]
    by_kind: bool = False
    """Whether entries are sorted by kind, so that a binary search finds them."""

    @classmethod
    def of(cls, entries: Sequence[tuple[int, int, int]]) -> "_Entries":
        table = np.array(entries, dtype=np.int64).reshape(len(entries), 3)
        return cls(table[:, 0].astype(np.int32), table[:, 1].astype(np.int32), table[:, 2].copy())

    def __len__(self) -> int:
        return len(self.counts)

    @cached_property
    def highest_row(self) -> int:
        return int(self.rows.max(initial=0))

    def where(self, chosen: Bools) -> NDArray[np.intp]:
        """The indices of the entries of the chosen kinds."""
        if not self.by_kind:
            return np.flatnonzero(chosen.take(self.numbers))
        kinds = np.flatnonzero(chosen).astype(np.int32)
        starts = self.numbers.searchsorted(kinds, "left")
        lengths = self.numbers.searchsorted(kinds, "right") - starts
        # Concatenate the ranges [start, start + length) of all kinds without a loop.
        before = np.cumsum(lengths) - lengths
        return np.repeat(starts - before, lengths) + np.arange(lengths.sum())


_Picked = list[tuple[_Entries, NDArray[np.intp]]]


class PodTable:
    """The number of pods of each kind on each row. Frozen; the counts are the sum of a few parts."""

    __slots__ = ("_kind_count", "_kinds", "_last", "_numbers", "_parts")

    def __init__(self, kinds: PodKinds, parts: tuple[_Entries, ...]) -> None:
        self._kinds = kinds
        self._kind_count = len(kinds)
        self._parts = tuple(part for part in parts if len(part))
        self._last: tuple[Bools, _Picked] | None = None
        # By identity: a search for victims evicts the same pods over and over.
        self._numbers: dict[int, tuple[Pod, int]] = {}

    @classmethod
    def of(cls, pods_by_row: Iterable[Sequence[Pod]]) -> "PodTable":
        """A table of these pods, given row by row."""
        kinds = PodKinds()
        entries = [(kinds.number(pod), row, 1) for row, pods in enumerate(pods_by_row) for pod in pods]
        return cls(kinds, (_Entries.of(entries),))

    def count(self, where: Condition, nodes: int) -> NDArray[np.int64]:
        """The number of these pods on each of the first ``nodes`` rows."""
        return self._total(where, nodes, None)

    def sum(self, resource: str, where: Condition, nodes: int) -> NDArray[np.int64]:
        """The sum of what these pods request of a resource, on each of the first ``nodes`` rows."""
        return self._total(where, nodes, self._kinds.amounts(resource, self._kind_count))

    @property
    def kinds(self) -> tuple[PodKinds, int]:
        """The kinds of pods, and how many of them (the first ones) this table knows."""
        return self._kinds, self._kind_count

    def weigh(self, weights: NDArray[np.int64] | Bools, nodes: int) -> NDArray[np.int64]:
        """The weight of the pods on each of the first ``nodes`` rows, by the weight of a pod of each kind."""
        weighty = weights.astype(np.bool_, copy=False)
        total = np.zeros(self._rows(nodes), dtype=np.int64)
        if weighty.any():
            for part, at in self._pick(weighty):
                np.add.at(total, part.rows[at], part.counts[at] * weights[part.numbers[at]])
        return total[:nodes]

    def changed(self, changes: Iterable[tuple[Pod, int, int]]) -> "PodTable":
        """A copy with pods added (+1) to or taken (-1) from rows."""
        more = [(self._number(pod), row, by) for pod, row, by in changes]
        return PodTable(self._kinds, (*self._parts, _Entries.of(more)))

    def _number(self, pod: Pod) -> int:
        known = self._numbers.get(id(pod))
        if known is None or known[0] is not pod:
            known = self._numbers[id(pod)] = (pod, self._kinds.number(pod))
        return known[1]

    def growing(self) -> "GrowingTable":
        """A copy to which pods can be added one by one."""
        return GrowingTable(self._kinds, self._parts)

    def _total(self, where: Condition, nodes: int, amounts: NDArray[np.int64] | None) -> NDArray[np.int64]:
        if not hasattr(where, "over"):
            raise TypeError(
                "pods are counted by a condition, such as PodLabel('app') == 'db' or"
                f" PodLabel('app').same_as(pod), not by {where!r}"
            )
        picked = self._pick(where.over(self._kinds, self._kind_count))
        size = self._rows(nodes)
        if amounts is not None:
            return add_up(
                size, [(part.rows[at], amounts[part.numbers[at]], part.counts[at]) for part, at in picked]
            )[:nodes]
        total = np.zeros(size, dtype=np.int64)
        for part, at in picked:
            np.add.at(total, part.rows[at], part.counts[at])
        return total[:nodes]

    def _rows(self, nodes: int) -> int:
        """How many rows to add up; removed rows may still have entries in two parts, with a sum of 0."""
        return max(nodes, 1 + max((part.highest_row for part in self._parts), default=0))

    def _pick(self, chosen: Bools) -> _Picked:
        """The entries of the chosen kinds in each part."""
        # One policy asks about the same pods several times: their number, their CPU, their memory.
        last = self._last
        if last is None or not np.array_equal(last[0], chosen):
            picked = [(part, part.where(chosen)) for part in self._parts]
            self._last = last = (chosen, picked)
        return last[1]


class GrowingTable:
    """Counts to which pods can be added; freezing them costs only as much as was added."""

    def __init__(self, kinds: PodKinds, parts: tuple[_Entries, ...]) -> None:
        self._kinds = kinds
        self._parts = parts
        self._more = _Growing(room=64)

    def add(self, pod: Pod, row: int) -> None:
        """Count a pod on a row."""
        self._more.append(self._kinds.number(pod), row, 1)

    def freeze(self) -> PodTable:
        """The counts as they are now."""
        return PodTable(self._kinds, (*self._parts, self._more.entries()))


class Tally:
    """Counts that pods are added to and taken from, in constant time."""

    def __init__(self) -> None:
        self._kinds = PodKinds()
        self._base = _Entries.of([])
        self._since = _Growing()
        self._kinds_in_use = 0

    def add(self, pod: Pod, row: int, by: int = 1) -> None:
        """Count a pod on a row; ``by=-1`` takes it away."""
        self._since.append(self._kinds.number(pod), row, by)

    def freeze(self) -> PodTable:
        """The counts as they are now; entries are shared, not copied."""
        # What-if placements add kinds too, so kinds may grow without entries.
        if len(self._since) > _FOLD or len(self._kinds) > 2 * self._kinds_in_use + _FOLD:
            self._base = _folded(self._base, self._since.entries())
            # A new object: frozen tables keep views of the old one.
            self._since = _Growing()
            self._forget_kinds()
        return PodTable(self._kinds, (self._base, self._since.entries()))

    def _forget_kinds(self) -> None:
        """Drop the kinds without pods if they are the majority; frozen tables keep theirs."""
        used, numbers = np.unique(self._base.numbers, return_inverse=True)
        self._kinds_in_use = len(used)
        if len(self._kinds) > 2 * len(used):
            self._kinds = self._kinds.only(used.astype(np.int64))
            self._base = _Entries(numbers.astype(np.int32), self._base.rows, self._base.counts, by_kind=True)


def _folded(base: _Entries, recent: _Entries) -> _Entries:
    """Both as one, with one entry for each kind and row; entries that add up to 0 are dropped."""
    keys = np.concatenate(
        [part.numbers.astype(np.int64) << 32 | part.rows.astype(np.int64) for part in (base, recent)]
    )
    pairs, places = np.unique(keys, return_inverse=True)
    counts = np.zeros(len(pairs), dtype=np.int64)
    np.add.at(counts, places, np.concatenate([base.counts, recent.counts]))
    kept = counts != 0
    pairs = pairs[kept]
    numbers, rows = (pairs >> 32).astype(np.int32), (pairs & 0xFFFFFFFF).astype(np.int32)
    return _Entries(numbers, rows, counts[kept], by_kind=True)


class _Growing:
    """Entries that are appended one by one; `entries` returns views, which later appends do not change."""

    def __init__(self, room: int = 2 * _FOLD) -> None:
        self._table = np.empty((3, room), dtype=np.int64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, number: int, row: int, by: int) -> None:
        if self._count == self._table.shape[1]:
            self._table = np.concatenate([self._table, np.empty_like(self._table)], axis=1)
        self._table[:, self._count] = number, row, by
        self._count += 1

    def entries(self) -> _Entries:
        numbers, rows, counts = self._table[:, : self._count]
        return _Entries(numbers, rows, counts)
