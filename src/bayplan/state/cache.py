"""The cache: nodes and pods as the watches report them, and snapshots of them on demand.

A watch event marks the rows of the nodes it touches. The next snapshot recomputes only those rows and shares
all others with the previous snapshot. One task owns the cache; snapshots are frozen and any thread may read
them.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

import msgspec
import numpy as np

from bayplan.kube.meta import EMPTY, NO_META
from bayplan.kube.node import NodeObject
from bayplan.kube.pod import Pod
from bayplan.kube.quantity import QuantityError
from bayplan.snapshot.cluster import Snapshot, more_requests, total_requests
from bayplan.snapshot.load import NO_REQUESTS, Load
from bayplan.snapshot.lookup import NodeRows
from bayplan.snapshot.marks import Marks
from bayplan.snapshot.pieces import Pieces
from bayplan.snapshot.table import NodeTable
from bayplan.snapshot.tally import Tally
from bayplan.state.assumption import Assumption
from bayplan.state.objects import ObjectStore
from bayplan.state.rewritten import Rewritten
from bayplan.state.siblings import Siblings

Pods = dict[str, Pod]
_LazyPods = Callable[[], list[Pod]] | None

_GONE_LIMIT = 20_000
"""How many pods may go until the cache takes a snapshot by itself, to free their memory."""
_GAP_LIMIT = 1000
"""How many gaps in the list of waiting pods are tolerated before it is compacted."""


def _same_pod(known: Pod | None, pod: Pod) -> bool:
    """Whether both have the same UID; a new pod may have the name of an old one."""
    return known is not None and known.uid == pod.uid


def _same_but_version(known: Pod, pod: Pod) -> bool:
    """Whether two states of a pod are equal except for their resourceVersion."""
    if known.spec != pod.spec or known.status != pod.status or known.annotations != pod.annotations:
        return False
    now = pod.metadata or NO_META
    # "No annotations" is either None or an empty map; both were compared as equal above.
    was = msgspec.structs.replace(
        known.metadata or NO_META, resource_version=now.resource_version, annotations=now.annotations
    )
    return was == now


def _same_node_but_version(known: NodeObject, node: NodeObject) -> bool:
    version = (node.metadata or NO_META).resource_version
    was = msgspec.structs.replace(known.metadata or NO_META, resource_version=version)
    return known.spec == node.spec and known.status == node.status and was == node.metadata


def _requests_stay(known: Pod, pod: Pod) -> bool:
    """Whether the sum of requests on the node stays the same when ``pod`` replaces ``known``."""
    if known.node_name != pod.node_name or pod.finished:
        return False
    try:
        return known.requests == pod.requests
    except QuantityError:
        return False


class Cache:
    """Nodes, pods and assumptions about pods; makes snapshots of them."""

    def __init__(self, *, nodes_only: bool = False) -> None:
        """With ``nodes_only`` pods are not watched, and snapshots say that pods are unknown."""
        self._nodes_only = nodes_only
        self._rows: dict[str, int] = {}
        self._objects: list[NodeObject] = []
        self._pods: Pods = {}
        self._pods_on_row: list[Pods] = []
        self._pods_on_unknown_node: dict[str, Pods] = {}
        # Pods without a node, in order of arrival, None where one has gone; and the index of each, by key.
        self._waiting: Pieces[Pod | None] = Pieces()
        self._waiting_places: dict[str, int] = {}
        self._assumed: dict[str, Assumption] = {}
        self._unsettled: Mapping[str, str] = {}
        self._siblings = Siblings()
        self._tally = Tally()
        self._requests: Pieces[Mapping[str, int]] = Pieces()
        self._placed: Pieces[tuple[Pod, ...]] = Pieces()
        self._changed: set[int] = set()
        self._loaded: set[int] = set()
        # Rows of _loaded where pods came and none left: the new requests are added to the old sum.
        self._added: dict[int, list[Pod]] = {}
        # Rows of _loaded where a pod left: the sum is computed anew.
        self._recount: set[int] = set()
        # How many pods left or changed since the last snapshot; each takes memory until the next one.
        self._gone = 0
        self._rows_moved = False
        self._dirty = False
        self.doubtful: set[str] = set()
        """Keys of assumed pods that the last list lacked: `LiveView` asks the API server for each."""
        self.rewritten = Rewritten()
        """Bound pods whose allocation somebody rewrote."""
        self.objects = ObjectStore()
        """Watched objects of other kinds than Node and Pod."""
        self.version = 0
        """Grows with each change that may change a verdict: of nodes and placed pods, not of waiting pods."""
        load, pods = (None, None) if nodes_only else (Load([], []), ())
        self._last = Snapshot(NodeTable([], load), pods, marks=Marks.begin(0))

    @property
    def node_count(self) -> int:
        """The number of nodes."""
        return len(self._objects)

    @property
    def pod_count(self) -> int:
        """The number of pods, placed or waiting."""
        return len(self._pods)

    def put_node(self, node: NodeObject) -> None:
        """Add or update a node."""
        row = self._rows.get(node.name)
        if row is None:
            row = self._append(node)
        elif _same_node_but_version(self._objects[row], node):
            # A kubelet writes the node's status every few minutes; only fields that we do not read differ.
            return
        self._objects[row] = node
        self._changed.add(row)
        self._dirty = True
        self.version += 1

    def drop_node(self, name: str) -> None:
        """Remove a node. Its pods stay known: they may outlive it, and it may come back."""
        row = self._rows.pop(name, None)
        if row is None:
            return
        orphans = self._pods_on_row[row]
        for pod in orphans.values():
            self._tally.add(pod, row, -1)
        if orphans:
            self._pods_on_unknown_node[name] = orphans
        self._close_gap(row)
        self._rows_moved = self._dirty = True
        self.version += 1

    def put_pod(self, pod: Pod) -> None:
        """Add or update a pod that the watch reports; a finished pod is removed."""
        assumption = self._assumed.get(pod.key)
        if assumption is not None and not assumption.told:
            if assumption.uid != pod.uid:
                # A late report of an older pod of the same name.
                return
            self._assumed[pod.key] = replace(assumption, told=True)
        if assumption is None:
            pod = self.rewritten.see(pod, self._pods.get(pod.key))
        self._put(pod)

    def _put(self, pod: Pod) -> None:
        key = pod.key
        pod = self._with_assumption(key, pod)
        if self._keeps_equal_pod(key, pod):
            return
        known = self._pods.get(key)
        self._siblings.join(pod, known)
        requests_stay = known is not None and _requests_stay(known, pod)
        self._take_away(key, requests_stay=requests_stay)
        if pod.finished:
            self._snapshot_if_many_are_gone()
            return
        self._pods[key] = pod
        self._dirty = True
        name = pod.node_name
        if not name:
            self._waiting_places[key] = len(self._waiting)
            self._waiting.append(pod)
            return
        row = self._rows.get(name)
        if row is None:
            self._pods_on_unknown_node.setdefault(name, {})[key] = pod
            return
        self._pods_on_row[row][key] = pod
        self._tally.add(pod, row)
        self._loaded.add(row)
        if not requests_stay:
            self._added.setdefault(row, []).append(pod)
        self.version += 1

    def drop_pod(self, key: str, uid: str = "") -> None:
        """Remove a pod and its assumption; with a ``uid``, only if the known pod has that UID.

        A new pod of the same name may be known, and assumed on a node, before the watch reports the deletion
        of the old one.
        """
        known = self._pods.get(key)
        if uid and known is not None and known.uid != uid:
            return
        self._assumed.pop(key, None)
        self.rewritten.drop(key)
        self._take_away(key)
        self._snapshot_if_many_are_gone()

    def _snapshot_if_many_are_gone(self) -> None:
        """Take a snapshot, which frees the memory of removed pods, if nobody has asked for one for long."""
        if self._gone >= _GONE_LIMIT:
            self.snapshot()

    def pod(self, key: str) -> Pod | None:
        """The pod with the key ``namespace/name``, with its assumed node if it has one."""
        return self._pods.get(key)

    @property
    def pods(self) -> Collection[Pod]:
        """All unfinished pods, placed or waiting."""
        return self._pods.values()

    def node(self, name: str) -> NodeObject | None:
        """The node of that name."""
        row = self._rows.get(name)
        return None if row is None else self._objects[row]

    def assume(self, pod: Pod, node: str, annotations: Mapping[str, str] = EMPTY) -> None:
        """Count the pod on the node, with these annotations, until the watch reports its node or `forget`."""
        before, known = self._assumed.get(pod.key), self._pods.get(pod.key)
        told = before.told if before is not None and before.uid == pod.uid else _same_pod(known, pod)
        self._assumed[pod.key] = Assumption(pod.uid, node, annotations, told, pod)
        self._put(pod)

    def assume_anew(self, pod: Pod, annotations: Mapping[str, str]) -> None:
        """Change the annotations of an assumed pod."""
        before = self._assumed[pod.key]
        if before.annotations != annotations:
            self.assume(before.plain, before.node, annotations)

    def assumed_annotations(self, pod: Pod) -> Mapping[str, str]:
        """The annotations that the bind of an assumed pod is to write; empty if the pod is not assumed."""
        assumption = self._assumed.get(pod.key)
        return assumption.annotations if assumption and assumption.uid == pod.uid else EMPTY

    def assumes(self, pod: Pod) -> bool:
        """Whether the pod is assumed on a node, and not yet reported there."""
        assumption = self._assumed.get(pod.key)
        return assumption is not None and assumption.uid == pod.uid

    def forget(self, pod: Pod) -> None:
        """Take back the assumption about the pod."""
        assumption = self._assumed.get(pod.key)
        if assumption is None or assumption.uid != pod.uid:
            return
        del self._assumed[pod.key]
        if not assumption.told:
            # The watch reports the pod if it exists; that it is gone may have been reported already.
            self._take_away(pod.key)
        elif pod.key in self._pods:
            self._put(assumption.plain)

    def bound(self, pod: Pod, at: float) -> None:
        """Note that the API server confirmed the bind of an assumed pod; the watch has yet to report it."""
        if self.assumes(pod):
            self._assumed[pod.key] = replace(self._assumed[pod.key], bound_at=at)

    def end_assumptions(self, before: float) -> None:
        """End the assumptions about pods bound ``before``: a list of a later state is about to replace them.

        Either the list shows the pod bound, and the watch was only late. Or etcd was restored from a backup,
        in which the pod was not bound yet: then no watch would ever end the assumption.
        """
        for key in [key for key, assumption in self._assumed.items() if assumption.bound_at < before]:
            del self._assumed[key]

    @property
    def assumed_uids(self) -> set[str]:
        """The UIDs of the assumed pods."""
        return {assumption.uid for assumption in self._assumed.values()}

    @property
    def assumed_count(self) -> int:
        """The number of assumed pods."""
        return len(self._assumed)

    @property
    def unsettled(self) -> Mapping[str, str]:
        """Binds with an unknown outcome: the node, by UID of the pod."""
        return self._unsettled

    def doubt(self, uid: str, node: str) -> None:
        """Note that the outcome of the bind of this pod is unknown."""
        # Snapshots keep a reference to the mapping, so it is replaced and never changed.
        self._unsettled = {**self._unsettled, uid: node}
        self._dirty = True

    def settle(self, uid: str) -> None:
        """Note that the outcome of the bind of this pod is known."""
        self._unsettled = {other: node for other, node in self._unsettled.items() if other != uid}
        self._dirty = True

    def _keeps_equal_pod(self, key: str, pod: Pod) -> bool:
        """Replace a placed pod by an equal one without counting a change; whether it was equal.

        Each of our binds ends this way: the watch reports what was assumed. No verdict changes by that.
        """
        known = self._pods.get(key)
        row = self._rows.get(known.node_name) if known is not None else None
        if known is None or row is None or not _same_but_version(known, pod):
            return False
        pod.__dict__.update(known.__dict__)
        self._pods[key] = self._pods_on_row[row][key] = pod
        return True

    def _with_assumption(self, key: str, pod: Pod) -> Pod:
        """The pod with its assumed node and annotations, if it is assumed.

        A pod with a node, a finished pod or another UID ends the assumption.
        """
        assumption = self._assumed.get(key)
        if assumption is None:
            return pod
        if pod.uid != assumption.uid or pod.node_name or pod.finished:
            del self._assumed[key]
            return pod
        updated = self._assumed[key] = replace(assumption, plain=pod)
        return updated.shown()

    def replace_nodes(self, nodes: Iterable[NodeObject]) -> None:
        """Replace all nodes by a list of them; nodes that it lacks were deleted while no watch was open."""
        fresh = {node.name: node for node in nodes}
        for name in [name for name in self._rows if name not in fresh]:
            self.drop_node(name)
        for node in fresh.values():
            self.put_node(node)

    def replace_pods(self, pods: Iterable[Pod]) -> None:
        """Replace all pods by a list of them; pods that it lacks were deleted while no watch was open.

        Assumed pods that it lacks stay: such a pod may have been created, and bound, after the list was made,
        and the list may have an older pod of the same name. Their keys are in `doubtful` until the API server
        was asked for each.
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
        """The cluster now; the same object as before if nothing has changed."""
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
        self._added.clear()
        self._recount.clear()
        self._rows_moved = self._dirty = False
        self._gone = 0
        return self._last

    @property
    def same_nodes(self) -> Snapshot | None:
        """The last snapshot if only pods have changed since then; otherwise ``None``."""
        last = self._last
        if self._changed or self._rows_moved or self._unsettled is not last.unsettled:
            return None
        return last if self.objects.freeze() is last.objects else None

    def _sum_up(self, row: int) -> None:
        """Update the pods and the requests of a row: sum all pods, or add the new ones to the last sum."""
        pods = tuple(self._pods_on_row[row].values())
        self._placed[row] = pods
        if row in self._recount or row in self._changed:
            self._requests[row] = total_requests(pods) if pods else NO_REQUESTS
        elif row in self._added:
            self._requests[row] = more_requests(self._requests[row], self._added[row])

    def _with_pods(self) -> tuple[Load | None, _LazyPods, _LazyPods]:
        """The nodes' load, the pods on no known node, all pods; ``None`` each if pods are not watched."""
        if self._nodes_only:
            return None, None, None
        load = Load(self._requests.copy(), self._placed.copy(), self._tally.freeze())
        elsewhere = self._elsewhere()
        return load, elsewhere, lambda: [p for there in load.pods for p in there] + elsewhere()

    def _elsewhere(self) -> Callable[[], list[Pod]]:
        """A function that returns the pods which are now on no known node."""
        if len(self._waiting) > 2 * len(self._waiting_places) + _GAP_LIMIT:
            compacted = [pod for pod in self._waiting if pod is not None]
            self._waiting = Pieces(compacted)
            self._waiting_places = {pod.key: place for place, pod in enumerate(compacted)}
        waiting = self._waiting.copy()
        orphans = [pod for pods in self._pods_on_unknown_node.values() for pod in pods.values()]
        return lambda: [pod for pod in waiting if pod is not None] + orphans

    def _append(self, node: NodeObject) -> int:
        row = len(self._objects)
        self._rows[node.name] = row
        self._objects.append(node)
        self._rows_moved = True
        pods = self._pods_on_unknown_node.pop(node.name, {})
        self._pods_on_row.append(pods)
        self._placed.append(())
        self._requests.append(NO_REQUESTS)
        for pod in pods.values():
            self._tally.add(pod, row)
        return row

    def _close_gap(self, row: int) -> None:
        """Move the last row into the row of a removed node, so that rows have no holes."""
        last = len(self._objects) - 1
        self._changed.discard(last)
        self._loaded.discard(last)
        self._recount.discard(last)
        self._added.pop(last, None)
        if row != last:
            for pod in self._pods_on_row[last].values():
                self._tally.add(pod, last, -1)
                self._tally.add(pod, row)
            self._objects[row] = self._objects[last]
            self._pods_on_row[row] = self._pods_on_row[last]
            self._rows[self._objects[row].name] = row
            self._changed.add(row)
        for rows in (self._objects, self._pods_on_row, self._placed, self._requests):
            rows.pop()

    def _take_away(self, key: str, *, requests_stay: bool = False) -> None:
        old = self._pods.pop(key, None)
        if old is None:
            return
        self._dirty = True
        place = self._waiting_places.pop(key, None)
        if place is not None:
            self._waiting[place] = None
        self._gone += 1
        row = self._rows.get(old.node_name)
        if row is not None:
            del self._pods_on_row[row][key]
            self._tally.add(old, row, -1)
            self._loaded.add(row)
            if not requests_stay:
                self._recount.add(row)
                # The row is summed anew, so added pods need no list.
                self._added.pop(row, None)
            self.version += 1
        elif old.node_name in self._pods_on_unknown_node:
            pods = self._pods_on_unknown_node[old.node_name]
            pods.pop(key, None)
            if not pods:
                del self._pods_on_unknown_node[old.node_name]
