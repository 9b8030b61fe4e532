"""Writes snapshots as lines of changes, and reads them back.

Snapshots of a live cluster share unchanged rows. Changed rows are found by identity, row by
row, and only those are written.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from operator import is_, is_not

import numpy as np

from bayplan.kube.node import NodeObject
from bayplan.kube.pod import Pod
from bayplan.recording.lines import Cluster, ObjectsChanged, Row, Waiting, Whole
from bayplan.recording.objects import ObjectsReader, ObjectsWriter
from bayplan.recording.redact import kept_node, kept_pod
from bayplan.snapshot.cluster import Snapshot, total_requests
from bayplan.snapshot.load import NO_REQUESTS, Load
from bayplan.snapshot.table import NodeTable
from bayplan.snapshot.tally import Tally

# Rows per line: making and encoding one holds the interpreter, so it must take no more than a millisecond.
_ROWS_A_LINE = 50
_EMPTY = NodeObject()


class ClusterWriter:
    """Writes what has changed since the snapshot that the lines so far describe."""

    def __init__(self) -> None:
        self._known: Snapshot | None = None
        self._load: Load | None = None
        self._objects = ObjectsWriter()

    def forget(self) -> None:
        """Write the next snapshot as a whole."""
        self._known = self._load = None
        self._objects.forget()

    def lines(self, snapshot: Snapshot) -> Iterator[Cluster | Whole | ObjectsChanged]:
        """The lines that lead from the last snapshot to this one."""
        if snapshot is self._known:
            return
        yield from self._objects.lines(snapshot.objects)
        load = snapshot.nodes.load
        if load is None or snapshot.elsewhere is None:
            yield _whole(snapshot)
            self._known, self._load = snapshot, None
            return
        yield from self._changes(snapshot, load, snapshot.elsewhere)
        self._known, self._load = snapshot, load

    def _changes(self, snapshot: Snapshot, load: Load, elsewhere: Sequence[Pod]) -> Iterator[Cluster]:
        before, waited = self._before()
        objects, size = snapshot.nodes.objects, len(snapshot.nodes)
        common = min(size, len(before[0]))
        changed = set(compress(range(common), map(is_not, before[0], objects)))
        loaded = set(compress(range(common), map(is_not, before[1], load.pods)))
        changed.update(range(common, size))
        loaded.update(row for row in range(common, size) if load.pods[row])

        def told(row: int) -> Row:
            node = kept_node(objects[row]) if row in changed else None
            there = before[1][row] if row < common else ()
            return Row(row, node, _pods(there, load.pods[row]) if row in loaded else None)

        rows = sorted(changed | loaded)
        waiting, fresh = _waiting(waited, elsewhere), self._load is None
        doubted = self._known.unsettled if self._known is not None and not fresh else {}
        unsettled = None if snapshot.unsettled == doubted else dict(snapshot.unsettled)
        for start in range(0, len(rows) or 1, _ROWS_A_LINE):
            part = [told(row) for row in rows[start : start + _ROWS_A_LINE]]
            yield Cluster(
                fresh=fresh and not start,
                size=size,
                rows=part,
                waiting=None if start else waiting,
                unsettled=None if start else unsettled,
            )

    def _before(self) -> tuple[tuple[Sequence[NodeObject], Sequence[tuple[Pod, ...]]], Sequence[Pod]]:
        if self._known is None or self._load is None:
            return ((), ()), ()
        return (self._known.nodes.objects, self._load.pods), self._known.elsewhere or ()


def _whole(snapshot: Snapshot) -> Whole:
    pods = [kept_pod(pod) for pod in snapshot.pods] if snapshot.pods_known else None
    return Whole(nodes=[kept_node(node) for node in snapshot.nodes.objects], pods=pods)


def _pods(before: Iterable[Pod], now: Iterable[Pod]) -> list[int | Pod]:
    places = {id(pod): place for place, pod in enumerate(before)}
    return [places[id(pod)] if id(pod) in places else kept_pod(pod) for pod in now]


def _waiting(before: Sequence[Pod], now: Sequence[Pod]) -> Waiting | None:
    if len(before) == len(now) and all(map(is_, before, now)):
        return None
    there = {id(pod) for pod in now}
    gone = [place for place, pod in enumerate(before) if id(pod) not in there]
    left = [pod for pod in before if id(pod) in there]
    if len(left) <= len(now) and all(map(is_, left, now)):
        return Waiting(gone, [kept_pod(pod) for pod in now[len(left) :]])
    return Waiting(list(range(len(before))), [kept_pod(pod) for pod in now])


class ClusterReader:
    """Reads the lines, and has the snapshot that they describe so far."""

    def __init__(self) -> None:
        # A fresh cluster keeps the objects: they are not written again then.
        self._others = ObjectsReader()
        self._reset()

    def _reset(self) -> None:
        self._objects: list[NodeObject] = []
        self._placed: list[tuple[Pod, ...]] = []
        self._waiting: list[Pod] = []
        self._unsettled: dict[str, str] = {}
        self._tally = Tally()
        self._changed: set[int] = set()
        self._loaded: set[int] = set()
        self._last = Snapshot(NodeTable([], Load([], [])), [])
        self._dirty = True

    def apply(self, line: Cluster | Whole | ObjectsChanged) -> None:
        """Apply a line; raises `LookupError` if it does not fit the lines before it."""
        if isinstance(line, ObjectsChanged):
            self._others.apply(line)
            return
        if isinstance(line, Whole):
            self._reset()
            self._last, self._dirty = Snapshot.build(line.nodes, line.pods, self._others.objects()), False
            return
        if line.fresh:
            self._reset()
        self._resize(line.size)
        for row in line.rows:
            self._put(row)
        if line.waiting is not None:
            gone = set(line.waiting.gone)
            left = [pod for place, pod in enumerate(self._waiting) if place not in gone]
            self._waiting = left + line.waiting.came
        if line.unsettled is not None:
            self._unsettled = line.unsettled
        self._dirty = True

    def snapshot(self) -> Snapshot:
        """The snapshot; the same object until the next line."""
        if not self._dirty:
            return self._last
        changed = np.array(sorted(self._changed), dtype=np.intp)
        loaded = np.array(sorted(self._loaded | self._changed), dtype=np.intp)
        before = self._last.nodes.load
        requests = list(before.requests) if before else []
        requests = (requests + [NO_REQUESTS] * len(self._objects))[: len(self._objects)]
        for row in loaded.tolist():
            requests[row] = total_requests(self._placed[row]) if self._placed[row] else NO_REQUESTS
        load = Load(requests, list(self._placed), self._tally.freeze())
        self._last.nodes.moves_on()
        table = self._last.nodes.followed_by(list(self._objects), load, changed=changed, loaded=loaded)
        waiting = list(self._waiting)
        self._last = Snapshot(
            table,
            lambda: [pod for there in load.pods for pod in there] + waiting,
            elsewhere=waiting,
            objects=self._others.objects(),
            unsettled=self._unsettled,
        )
        self._changed.clear()
        self._loaded.clear()
        self._dirty = False
        return self._last

    def _resize(self, size: int) -> None:
        for row in range(size, len(self._objects)):
            for pod in self._placed[row]:
                self._tally.add(pod, row, -1)
        del self._objects[size:], self._placed[size:]
        self._changed = {row for row in self._changed if row < size}
        self._loaded = {row for row in self._loaded if row < size}
        for row in range(len(self._objects), size):
            self._objects.append(_EMPTY)
            self._placed.append(())
            self._changed.add(row)

    def _put(self, row: Row) -> None:
        number = row.row
        if not 0 <= number < len(self._objects):
            raise LookupError(f"row {number} of {len(self._objects)}")
        if row.node is not None:
            self._objects[number] = row.node
            self._changed.add(number)
        if row.pods is None:
            return
        before = self._placed[number]
        now = tuple(before[pod] if isinstance(pod, int) else pod for pod in row.pods)
        for pod in before:
            self._tally.add(pod, number, -1)
        for pod in now:
            self._tally.add(pod, number)
        self._placed[number] = now
        self._loaded.add(number)
