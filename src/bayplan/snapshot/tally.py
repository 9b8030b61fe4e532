"""Placed pods, counted by what rules between pods look at.

Pods that are alike (namespace, labels, owner, requests, terms, ports) are of one *kind*; a cluster of 150,000
pods has some thousand kinds. "How many pods like this are on each node" is then a question about kinds and
one vector operation over counts, whatever the number of pods.
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

# Changes since the last fold are looked at one by one in each question; folding costs some 15 ms.
_FOLD = 4096
_COLUMNS_KEPT = 500


@dataclass(frozen=True)
class PodKind:
    """What pods of one kind have in common."""

    namespace: str
    labels: Mapping[str, str]
    owner: str
    """UID of the controller, or ``""``."""
    requests: Mapping[str, int]
    affinity: Affinity
    """Its terms about other pods; those about nodes need not be the same for all."""
    host_ports: tuple[HostPort, ...]
    terminating: bool
    affinity_text: bytes
    """The terms about other pods as one text: kinds with the same terms have the same."""


Fact = TypeVar("Fact")


class Condition(Protocol):
    """A choice of pods."""

    def over(self, kinds: "PodKinds", count: int) -> Bools:
        """One bool for each of the first ``count`` kinds."""
        ...


class PodKinds:
    """Kinds of pods that were seen. It only grows, so a number once given stays right."""

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
                # The number last: whoever finds one, without the lock or after a deadline that fell in
                # between, finds the kind too.
                number = len(self._kinds)
                self._kinds.append(kind)
                self._numbers[key] = number
        return number

    def only(self, numbers: NDArray[np.int64]) -> "PodKinds":
        """Others, in which these kinds, in this order, are the first ones and all."""
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
        """Namespace of each kind."""
        return self._texts("namespace", count, lambda kind: kind.namespace)

    def owners(self, count: int) -> Strings:
        """UID of each kind's controller; absent for pods made by hand."""
        return self._texts("owner", count, lambda kind: kind.owner or None)

    def label(self, key: str, count: int) -> Strings:
        """One label of each kind."""
        return self._texts(f"label {key}", count, lambda kind: kind.labels.get(key))

    def terminating(self, count: int) -> Bools:
        """Which kinds are of pods that are being deleted."""
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
        """Something about each kind, at least of the first ``count``; read once a kind and kept by name."""
        known = self._facts.setdefault(name, [])
        if len(known) < count:
            # Two threads may be here at once: each writes the same facts to the same places, and who read
            # fewer kinds must not cut off what the other one wrote.
            start = len(known)
            fresh = [read(kind) for kind in self._kinds[start:]]
            known[start : start + len(fresh)] = fresh
        return known

    def kept(self, name: str, make: Callable[[], Fact]) -> Fact:
        """Something that somebody keeps beside the kinds, such as an index of them; made on first use."""
        known: Fact | None = self._kept.get(name)
        if known is None:
            known = self._kept.setdefault(name, make())
        return known

    def _texts(self, name: str, count: int, read: Callable[[PodKind], str | None]) -> Strings:
        known = self._columns.get(name)
        if known is None:
            if len(self._columns) >= _COLUMNS_KEPT:
                # Whoever makes a pod chooses the labels that it asks about. Anew: what is used comes back.
                self._columns = {}
            known = Strings.intern([read(kind) for kind in self._kinds[:count]])
            self._columns[name] = known
        elif len(known) < count:
            known = known.extended([read(kind) for kind in self._kinds[len(known) : count]])
            self._columns[name] = known
        return known if len(known) == count else known.with_codes(known.codes[:count])


@dataclass(frozen=True)
class _Entries:
    """So many pods of a kind on a row, more or fewer: one line an entry."""

    numbers: NDArray[np.int32] | NDArray[np.int64]
    rows: NDArray[np.int32] | NDArray[np.int64]
    counts: NDArray[np.int64]
    by_kind: bool = False
    """Whether those of one kind stand together, kinds in order: then they are found and not looked for."""

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
        """The places of the entries of these kinds."""
        if not self.by_kind:
            return np.flatnonzero(chosen.take(self.numbers))
        kinds = np.flatnonzero(chosen).astype(np.int32)
        starts = self.numbers.searchsorted(kinds, "left")
        lengths = self.numbers.searchsorted(kinds, "right") - starts
        # One range after the other: where each begins, less what came before it, and on from there.
        before = np.cumsum(lengths) - lengths
        return np.repeat(starts - before, lengths) + np.arange(lengths.sum())


_Picked = list[tuple[_Entries, NDArray[np.intp]]]


class PodTable:
    """How many pods of each kind are on each node. Frozen: a few parts, whose sum is the truth."""

    __slots__ = ("_kind_count", "_kinds", "_last", "_numbers", "_parts")

    def __init__(self, kinds: PodKinds, parts: tuple[_Entries, ...]) -> None:
        self._kinds = kinds
        self._kind_count = len(kinds)
        self._parts = tuple(part for part in parts if len(part))
        self._last: tuple[Bools, _Picked] | None = None
        # By identity: evictions are tried over and over with the same pods.
        self._numbers: dict[int, tuple[Pod, int]] = {}

    @classmethod
    def of(cls, pods_by_row: Iterable[Sequence[Pod]]) -> "PodTable":
        """The table of pods that are given row by row."""
        kinds = PodKinds()
        entries = [(kinds.number(pod), row, 1) for row, pods in enumerate(pods_by_row) for pod in pods]
        return cls(kinds, (_Entries.of(entries),))

    def count(self, where: Condition, nodes: int) -> NDArray[np.int64]:
        """How many of these pods are on each of the first ``nodes`` rows."""
        return self._total(where, nodes, None)

    def sum(self, resource: str, where: Condition, nodes: int) -> NDArray[np.int64]:
        """What these pods request of a resource, on each of the first ``nodes`` rows."""
        return self._total(where, nodes, self._kinds.amounts(resource, self._kind_count))

    @property
    def kinds(self) -> tuple[PodKinds, int]:
        """The kinds of pods, and how many of them, the first ones, are in this table."""
        return self._kinds, self._kind_count

    def weigh(self, weights: NDArray[np.int64] | Bools, nodes: int) -> NDArray[np.int64]:
        """What the pods on each of the first ``nodes`` rows weigh, given the weight of a pod of each kind."""
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
        """How many rows to add up; one that is gone may still stand in two parts, and is nothing in sum."""
        return max(nodes, 1 + max((part.highest_row for part in self._parts), default=0))

    def _pick(self, chosen: Bools) -> _Picked:
        """Where pods of these kinds are in each part."""
        # One rule asks about the same pods several times: how many, how much of this, how much of that.
        last = self._last
        if last is None or not np.array_equal(last[0], chosen):
            picked = [(part, part.where(chosen)) for part in self._parts]
            self._last = last = (chosen, picked)
        return last[1]


class GrowingTable:
    """Counts to which pods are added, and frozen tables of them, each of which costs what was added alone."""

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
    """Counts that change: one pod more, one pod less, in constant time."""

    def __init__(self) -> None:
        self._kinds = PodKinds()
        self._base = _Entries.of([])
        self._since = _Growing()
        self._kinds_in_use = 0

    def add(self, pod: Pod, row: int, by: int = 1) -> None:
        """Count a pod on a row; ``by=-1`` takes it away."""
        self._since.append(self._kinds.number(pod), row, by)

    def freeze(self) -> PodTable:
        """The counts as they are now: what was counted before is shared, not copied."""
        # Kinds are also made of pods that only might be placed.
        if len(self._since) > _FOLD or len(self._kinds) > 2 * self._kinds_in_use + _FOLD:
            self._base = _folded(self._base, self._since.entries())
            # Another one: frozen tables look at the old one for as long as they live.
            self._since = _Growing()
            self._forget_kinds()
        return PodTable(self._kinds, (self._base, self._since.entries()))

    def _forget_kinds(self) -> None:
        """Kinds of which there is no pod any more go, where they are most; frozen tables keep theirs."""
        used, numbers = np.unique(self._base.numbers, return_inverse=True)
        self._kinds_in_use = len(used)
        if len(self._kinds) > 2 * len(used):
            self._kinds = self._kinds.only(used.astype(np.int64))
            self._base = _Entries(numbers.astype(np.int32), self._base.rows, self._base.counts, by_kind=True)


def _folded(base: _Entries, recent: _Entries) -> _Entries:
    """Both as one, a line a pair, without those that add up to nothing."""
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
    """Entries that come one by one. What was handed out stays as it was: new ones are written behind it."""

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
