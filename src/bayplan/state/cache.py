"""Nodes and pods as the watch tells them, and snapshots of them on demand.

An event touches the rows it is about; a snapshot computes only touched rows again and shares the rest
with the one before. One task owns the cache; snapshots are frozen and may be read anywhere.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from bayplan.kube.meta import EMPTY, NO_META
from bayplan.kube.node import NodeObject
from bayplan.kube.pod import NO_SPEC, Pod
from bayplan.kube.quantity import QuantityError
from bayplan.snapshot.cluster import Snapshot, more_requests, total_requests
from bayplan.snapshot.load import NO_REQUESTS, Load
from bayplan.snapshot.lookup import NodeRows
from bayplan.snapshot.marks import Marks
from bayplan.snapshot.pieces import Pieces
from bayplan.snapshot.table import NodeTable
from bayplan.snapshot.tally import Tally
from bayplan.state.objects import ObjectStore
from bayplan.state.siblings import Siblings

Pods = dict[str, Pod]
_Later = Callable[[], list[Pod]] | None

_TRACES = 20_000
"""How many pods may go before a snapshot is taken that nobody asked for."""
_GAPS = 1000
"""How many gaps in the line of waiting pods are left alone."""


@dataclass(frozen=True)
class Assumption:
    """Where a pod is going to be, and what it got there, before the watch knows."""

    uid: str
    node: str
    annotations: Mapping[str, str]
    told: bool
    """Whether the watch has told of this very pod: what it tells of a namesake is newer then."""
    plain: Pod
    """The pod as it is without all that."""
    bound_at: float = math.inf
    """When the API server had said that it is so."""

    def shown(self) -> Pod:
        """The pod as it will be."""
        pod = self.plain
        annotations = {**pod.annotations, **self.annotations}
        metadata = msgspec.structs.replace(pod.metadata or NO_META, annotations=annotations)
        spec = msgspec.structs.replace(pod.spec or NO_SPEC, node_name=self.node)
        shown = msgspec.structs.replace(pod, metadata=metadata, spec=spec)
        # What was worked out about the pod depends neither on its node nor on its annotations.
        shown.__dict__.update(pod.__dict__)
        return shown


def _is(known: Pod | None, pod: Pod) -> bool:
    """Whether it is that pod, and not another one of the same name."""
    return known is not None and known.uid == pod.uid


def _same_but_version(known: Pod, pod: Pod) -> bool:
    """Whether two states of a pod differ in nothing that anybody goes by."""
    if known.spec != pod.spec or known.status != pod.status or known.annotations != pod.annotations:
        return False
    now = pod.metadata or NO_META
    # No annotations are written in two ways.
    was = msgspec.structs.replace(
        known.metadata or NO_META, resource_version=now.resource_version, annotations=now.annotations
    )
    return was == now


def _same_node_but_version(known: NodeObject, node: NodeObject) -> bool:
    version = (node.metadata or NO_META).resource_version
    was = msgspec.structs.replace(known.metadata or NO_META, resource_version=version)
    return known.spec == node.spec and known.status == node.status and was == node.metadata


def _asks_the_same(known: Pod, pod: Pod) -> bool:
    """Whether the sum of what is requested on its node is the same with either."""
    if known.node_name != pod.node_name or pod.finished:
        return False
    try:
        return known.requests == pod.requests
    except QuantityError:
        return False


class Cache:
    """The cluster, kept up to date."""

    def __init__(self, *, nodes_only: bool = False) -> None:
        """With ``nodes_only`` nobody tells of pods, and snapshots do not know any."""
        self._nodes_only = nodes_only
        self._rows: dict[str, int] = {}
        self._objects: list[NodeObject] = []
        self._pods: Pods = {}
        self._on_row: list[Pods] = []
        self._on_unknown: dict[str, Pods] = {}
        # Those that wait, in the order they came, with gaps; and the place of each.
        self._line: Pieces[Pod | None] = Pieces()
        self._places: dict[str, int] = {}
        self._assumed: dict[str, Assumption] = {}
        self._unsettled: Mapping[str, str] = {}
        self._siblings = Siblings()
        self._tally = Tally()
        self._requests: Pieces[Mapping[str, int]] = Pieces()
        self._placed: Pieces[tuple[Pod, ...]] = Pieces()
        self._changed: set[int] = set()
        self._loaded: set[int] = set()
        # Of those: where pods came and none went, they are added to the sum.
        self._came: dict[int, list[Pod]] = {}
        self._recount: set[int] = set()
        # Pods that went, or changed, since the last snapshot: each leaves traces until the next one.
        self._gone = 0
        self._rows_moved = False
        self._dirty = False
        self.doubtful: set[str] = set()
        """Pods that count by assumption and were not in the last list: are they there?"""
        self.objects = ObjectStore()
        """What there is beside nodes and pods, where somebody watches it."""
        self.version = 0
        """Counts what changes the judgement of nodes: nodes, and pods on them; not pods that wait."""
        load, pods = (None, None) if nodes_only else (Load([], []), ())
        self._last = Snapshot(NodeTable([], load), pods, marks=Marks.begin(0))

    @property
    def node_count(self) -> int:
        """How many nodes there are."""
        return len(self._objects)

    @property
    def pod_count(self) -> int:
        """How many pods there are, placed or waiting."""
        return len(self._pods)

    def put_node(self, node: NodeObject) -> None:
        """A node is there, or is different."""
        row = self._rows.get(node.name)
        if row is None:
            row = self._append(node)
        elif _same_node_but_version(self._objects[row], node):
            # A kubelet says every few minutes that it is still there, in a field that nobody goes by.
            return
        self._objects[row] = node
        self._changed.add(row)
        self._dirty = True
        self.version += 1

    def drop_node(self, name: str) -> None:
        """A node is gone; its pods may outlive it and come back with it."""
        row = self._rows.pop(name, None)
        if row is None:
            return
        orphans = self._on_row[row]
        for pod in orphans.values():
            self._tally.add(pod, row, -1)
        if orphans:
            self._on_unknown[name] = orphans
        self._close_gap(row)
        self._rows_moved = self._dirty = True
        self.version += 1

    def put_pod(self, pod: Pod) -> None:
        """A pod is there, or is different, as the watch tells; a finished one holds nothing any more."""
        assumption = self._assumed.get(pod.key)
        if assumption is not None and not assumption.told:
            if assumption.uid != pod.uid:
                # Late news of the one before it, who had the same name.
                return
            self._assumed[pod.key] = replace(assumption, told=True)
        self._put(pod)

    def _put(self, pod: Pod) -> None:
        key = pod.key
        pod = self._as_assumed(key, pod)
        if self._says_nothing_new(key, pod):
            return
        known = self._pods.get(key)
        asks_the_same = False
        self._siblings.join(pod, known)
        if known is not None:
            asks_the_same = _asks_the_same(known, pod)
        self._take_away(key, sum_stays=asks_the_same)
        if pod.finished:
            self._fold()
            return
        self._pods[key] = pod
        self._dirty = True
        name = pod.node_name
        if not name:
            self._places[key] = len(self._line)
            self._line.append(pod)
            return
        row = self._rows.get(name)
        if row is None:
            self._on_unknown.setdefault(name, {})[key] = pod
            return
        self._on_row[row][key] = pod
        self._tally.add(pod, row)
        self._loaded.add(row)
        if not asks_the_same:
            self._came.setdefault(row, []).append(pod)
        self.version += 1

    def drop_pod(self, key: str, uid: str = "") -> None:
        """A pod is gone, and with it whatever was assumed of it; where it has a ``uid``, that pod alone.

        One that was made anew under its name may be known, and assumed on a node, before the watch tells that
        the old one is gone.
        """
        known = self._pods.get(key)
        if uid and known is not None and known.uid != uid:
            return
        self._assumed.pop(key, None)
        self._take_away(key)
        self._fold()

    def _fold(self) -> None:
        """Let go of the traces of pods that are gone, where nobody has asked for a snapshot for long."""
        if self._gone >= _TRACES:
            self.snapshot()

    def pod(self, key: str) -> Pod | None:
        """The pod of that ``namespace/name``, on its node if it has one or is assumed to."""
        return self._pods.get(key)

    @property
    def pods(self) -> Collection[Pod]:
        """Every pod that is not finished, placed or waiting."""
        return self._pods.values()

    def node(self, name: str) -> NodeObject | None:
        """The node of that name."""
        row = self._rows.get(name)
        return None if row is None else self._objects[row]

    def assume(self, pod: Pod, node: str, annotations: Mapping[str, str] = EMPTY) -> None:
        """Count the pod on that node, with what it got, until the watch says where it is, or `forget`."""
        before, known = self._assumed.get(pod.key), self._pods.get(pod.key)
        told = before.told if before is not None and before.uid == pod.uid else _is(known, pod)
        self._assumed[pod.key] = Assumption(pod.uid, node, annotations, told, pod)
        self._put(pod)

    def assume_anew(self, pod: Pod, annotations: Mapping[str, str]) -> None:
        """Count an assumed pod where it is, with other things that it gets there."""
        before = self._assumed[pod.key]
        if before.annotations != annotations:
            self.assume(before.plain, before.node, annotations)

    def assumed_annotations(self, pod: Pod) -> Mapping[str, str]:
        """What is to be written on an assumed pod."""
        assumption = self._assumed.get(pod.key)
        return assumption.annotations if assumption and assumption.uid == pod.uid else EMPTY

    def assumes(self, pod: Pod) -> bool:
        """Whether the pod is on its node by assumption alone."""
        assumption = self._assumed.get(pod.key)
        return assumption is not None and assumption.uid == pod.uid

    def forget(self, pod: Pod) -> None:
        """The pod is not going to be on the node that was assumed."""
        assumption = self._assumed.get(pod.key)
        if assumption is None or assumption.uid != pod.uid:
            return
        del self._assumed[pod.key]
        if pod.key in self._pods:
            self._put(assumption.plain)

    def bound(self, pod: Pod, at: float) -> None:
        """The API server has said that the pod is where it is assumed to be; the watch has not told yet."""
        if self.assumes(pod):
            self._assumed[pod.key] = replace(self._assumed[pod.key], bound_at=at)

    def end_assumptions(self, before: float) -> None:
        """A list of the latest state follows: what was bound when it was asked for, it knows better.

        It agrees with us, and the watch is only late. Or the API server was given an older past, in which the
        pod was not bound yet: nobody else would ever tell.
        """
        for key in [key for key, one in self._assumed.items() if one.bound_at < before]:
            del self._assumed[key]

    @property
    def assumed_uids(self) -> set[str]:
        """UIDs of the pods that are on a node by assumption alone."""
        return {assumption.uid for assumption in self._assumed.values()}

    @property
    def assumed_count(self) -> int:
        """How many pods are on a node by assumption alone."""
        return len(self._assumed)

    @property
    def unsettled(self) -> Mapping[str, str]:
        """The node, by UID, of each pod whose bind may have happened or not."""
        return self._unsettled

    def doubt(self, uid: str, node: str) -> None:
        """Nobody knows whether that bind has happened."""
        # Another one each time: snapshots keep theirs.
        self._unsettled = {**self._unsettled, uid: node}
        self._dirty = True

    def settle(self, uid: str) -> None:
        """What became of the bind is known."""
        self._unsettled = {other: node for other, node in self._unsettled.items() if other != uid}
        self._dirty = True

    def _says_nothing_new(self, key: str, pod: Pod) -> bool:
        """Whether a placed pod is as it is known to be: then it is taken over, and that is all.

        So ends every bind of ours: what was assumed is told by the watch. Nobody has to judge again for that.
        """
        known = self._pods.get(key)
        row = self._rows.get(known.node_name) if known is not None else None
        if known is None or row is None or not _same_but_version(known, pod):
            return False
        pod.__dict__.update(known.__dict__)
        self._pods[key] = self._on_row[row][key] = pod
        return True

    def _as_assumed(self, key: str, pod: Pod) -> Pod:
        """The pod where it is assumed to be. Evidence ends it: a node, an end, another pod."""
        if key not in self._assumed:
            return pod
        assumption = self._assumed[key]
        if pod.uid != assumption.uid or pod.node_name or pod.finished:
            del self._assumed[key]
            return pod
        now = self._assumed[key] = replace(assumption, plain=pod)
        return now.shown()

    def replace_nodes(self, nodes: Iterable[NodeObject]) -> None:
        """Exactly these nodes are there: what is not among them was deleted unseen."""
        fresh = {node.name: node for node in nodes}
        for name in [name for name in self._rows if name not in fresh]:
            self.drop_node(name)
        for node in fresh.values():
            self.put_node(node)

    def replace_pods(self, pods: Iterable[Pod]) -> None:
        """Exactly these pods are there: what is not among them was deleted unseen.

        Except for those that are assumed: one may have been made after the list was, and be bound by now; the
        list may have the one before it, of the same name. They are in `doubtful` until somebody has looked.
        """
        fresh = {pod.key: pod for pod in pods}
        missing = [key for key in self._pods if key not in fresh]
        self.doubtful = {key for key in missing if key in self._assumed}
        for key, assumption in self._assumed.items():
            listed = fresh.get(key)
            if listed is not None and listed.uid != assumption.uid and not assumption.told:
                self.doubtful.add(key)
        for key in missing:
            if key not in self.doubtful:
                self.drop_pod(key)
        for pod in fresh.values():
            self.put_pod(pod)

    def snapshot(self) -> Snapshot:
        """The cluster as it is now; the same object again while nothing happened."""
        objects = self.objects.freeze()
        if not self._dirty and objects is self._last.objects:
            return self._last
        loaded = np.array(sorted(self._loaded | self._changed), dtype=np.intp)
        for row in loaded.tolist():
            self._sum_up(row)
        load, elsewhere, pods = self._with_pods()
        nodes = list(self._objects) if self._changed or self._rows_moved else self._last.nodes.objects
        self._last.nodes.moves_on()
        table = self._last.nodes.followed_by(
            nodes, load, changed=np.array(sorted(self._changed), dtype=np.intp), loaded=loaded
        )
        marks = self._last.marks
        if marks is None or self._changed or self._rows_moved:
            marks = Marks.begin(len(self._objects))
        elif loaded.size:
            marks = marks.after(loaded)
        rows = NodeRows(self._rows) if self._rows_moved else self._last.rows
        self._last = Snapshot(
            table,
            pods,
            rows=rows,
            elsewhere=elsewhere,
            objects=objects,
            unsettled=self._unsettled,
            marks=marks,
        )
        self._changed.clear()
        self._loaded.clear()
        self._came.clear()
        self._recount.clear()
        self._rows_moved = self._dirty = False
        self._gone = 0
        return self._last

    @property
    def same_nodes(self) -> Snapshot | None:
        """The last snapshot, where nothing but pods has changed since then; ``None`` where more has."""
        last = self._last
        if self._changed or self._rows_moved or self._unsettled is not last.unsettled:
            return None
        return last if self.objects.freeze() is last.objects else None

    def _sum_up(self, row: int) -> None:
        """What is on a node, and what it requests: the sum of all, or what came on top of the last one."""
        there = tuple(self._on_row[row].values())
        self._placed[row] = there
        if row in self._recount or row in self._changed:
            self._requests[row] = total_requests(there) if there else NO_REQUESTS
        elif row in self._came:
            self._requests[row] = more_requests(self._requests[row], self._came[row])

    def _with_pods(self) -> tuple[Load | None, _Later, _Later]:
        """What is on the nodes, the pods on no known node, and all of them; nothing where none are known."""
        if self._nodes_only:
            return None, None, None
        load = Load(self._requests.copy(), self._placed.copy(), self._tally.freeze())
        elsewhere = self._elsewhere()
        return load, elsewhere, lambda: [p for there in load.pods for p in there] + elsewhere()

    def _elsewhere(self) -> Callable[[], list[Pod]]:
        """Pods on no known node, as they are now, for whoever asks later."""
        if len(self._line) > 2 * len(self._places) + _GAPS:
            waiting = [pod for pod in self._line if pod is not None]
            self._line = Pieces(waiting)
            self._places = {pod.key: place for place, pod in enumerate(waiting)}
        line = self._line.copy()
        orphans = [pod for pods in self._on_unknown.values() for pod in pods.values()]
        return lambda: [pod for pod in line if pod is not None] + orphans

    def _append(self, node: NodeObject) -> int:
        row = len(self._objects)
        self._rows[node.name] = row
        self._objects.append(node)
        self._rows_moved = True
        there = self._on_unknown.pop(node.name, {})
        self._on_row.append(there)
        self._placed.append(())
        self._requests.append(NO_REQUESTS)
        for pod in there.values():
            self._tally.add(pod, row)
        return row

    def _close_gap(self, row: int) -> None:
        """The last row moves into the gap, so that rows stay without holes."""
        last = len(self._objects) - 1
        self._changed.discard(last)
        self._loaded.discard(last)
        self._recount.discard(last)
        self._came.pop(last, None)
        if row != last:
            for pod in self._on_row[last].values():
                self._tally.add(pod, last, -1)
                self._tally.add(pod, row)
            self._objects[row] = self._objects[last]
            self._on_row[row] = self._on_row[last]
            self._rows[self._objects[row].name] = row
            self._changed.add(row)
        for rows in (self._objects, self._on_row, self._placed, self._requests):
            rows.pop()

    def _take_away(self, key: str, *, sum_stays: bool = False) -> None:
        old = self._pods.pop(key, None)
        if old is None:
            return
        self._dirty = True
        place = self._places.pop(key, None)
        if place is not None:
            self._line[place] = None
        self._gone += 1
        row = self._rows.get(old.node_name)
        if row is not None:
            del self._on_row[row][key]
            self._tally.add(old, row, -1)
            self._loaded.add(row)
            if not sum_stays:
                self._recount.add(row)
                # Summed up anew, nobody asks who came.
                self._came.pop(row, None)
            self.version += 1
        elif old.node_name in self._on_unknown:
            there = self._on_unknown[old.node_name]
            there.pop(key, None)
            if not there:
                del self._on_unknown[old.node_name]
