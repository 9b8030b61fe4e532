"""The snapshot: a frozen cluster of a node table and pods, and what-if copies of it."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bayplan.kube.meta import EMPTY
from bayplan.kube.node import NodeObject
from bayplan.kube.pod import NO_SPEC, Pod
from bayplan.kube.quantity import INT64_MAX, QuantityError
from bayplan.snapshot.load import NO_REQUESTS, Load, PodsUnknown
from bayplan.snapshot.lookup import NodeRows
from bayplan.snapshot.marks import Marks
from bayplan.snapshot.objects import NO_OBJECTS, Objects
from bayplan.snapshot.pieces import in_pieces
from bayplan.snapshot.sources import NO_READINGS, Readings
from bayplan.snapshot.table import NodeTable
from bayplan.snapshot.tally import PodKinds

_NO_ROWS = np.empty(0, dtype=np.intp)
_NO_CHANGES: Mapping[str, Collection[Any]] = MappingProxyType({})


class DuplicateNode(ValueError):
    """Two nodes have the same name."""


class Snapshot:
    """The cluster at one moment: what a hook gets as ``cluster``.

    ``cluster.nodes`` is a `NodeTable`, ``cluster.pods`` are the pods that are not finished. A snapshot never
    changes; `without` and `placed` give changed copies.
    """

    def __init__(
        self,
        nodes: NodeTable | Callable[[], NodeTable],
        pods: Sequence[Pod] | Callable[[], Sequence[Pod]] | None,
        *,
        rows: NodeRows | None = None,
        elsewhere: Sequence[Pod] | Callable[[], Sequence[Pod]] | None = None,
        objects: Objects = NO_OBJECTS,
        unsettled: Mapping[str, str] = EMPTY,
        marks: Marks | None = None,
        expected: Mapping[str, Collection[Pod]] = _NO_CHANGES,
    ) -> None:
        self._nodes = nodes
        self.expected = expected
        """Nominated pods by node: a pod must pass there both with them and without them."""
        self.marks = marks
        """When the pods on each row last changed; ``None`` if that is not tracked."""
        self.unsettled = unsettled
        """Binds with an unknown outcome: the node, by UID of the pod, which counts there."""
        self.objects = objects
        """Objects of other kinds than Node and Pod: claims, namespaces, services and so on."""
        self._elsewhere = elsewhere
        self._pods = pods
        if rows is not None:
            self.__dict__["rows"] = rows

    @classmethod
    def build(
        cls, nodes: Iterable[NodeObject], pods: Iterable[Pod] | None, objects: Objects = NO_OBJECTS
    ) -> "Snapshot":
        """A snapshot of these objects; ``pods=None`` means that the pods are unknown."""
        every = list(nodes)
        rows = NodeRows()
        for row, node in enumerate(every):
            if rows.setdefault(node.name, row) != row:
                raise DuplicateNode(f"node {node.name!r} is there twice")
        if pods is None:
            return cls(NodeTable(every), None, rows=rows, objects=objects)
        kept = [pod for pod in pods if not pod.finished]
        return cls(NodeTable(every, _load(rows, kept)), kept, rows=rows, objects=objects)

    @cached_property
    def nodes(self) -> NodeTable:
        """The nodes, as a table."""
        return self._nodes() if callable(self._nodes) else self._nodes

    @property
    def same_nodes(self) -> NodeTable:
        """A table of the same nodes, whose pods may be outdated: for readers that ignore pods."""
        return self.nodes

    @property
    def era(self) -> object:
        """An identity that stays the same while the nodes and their rows do."""
        return self if self.marks is None else self.marks.era

    @property
    def kinds(self) -> tuple[PodKinds, int]:
        """The kinds of pods, and how many of them (the first ones) this snapshot knows."""
        return self.nodes.kinds

    def look(self, rows: NDArray[np.intp]) -> NodeTable:
        """A table of these rows."""
        return self.nodes.take(rows)

    @cached_property
    def pods(self) -> Sequence[Pod]:
        """The unfinished pods, placed or waiting."""
        if self._pods is None:
            raise PodsUnknown("the list of pods")
        return self._pods() if callable(self._pods) else self._pods

    @cached_property
    def elsewhere(self) -> Sequence[Pod] | None:
        """Pods on no known node, which come last in `pods`; ``None`` if they are not kept apart."""
        return self._elsewhere() if callable(self._elsewhere) else self._elsewhere

    @property
    def pods_known(self) -> bool:
        """Whether this snapshot knows the pods of the cluster."""
        return self._pods is not None

    @cached_property
    def rows(self) -> NodeRows:
        """The row of each node, by name."""
        return NodeRows({name: row for row, name in enumerate(self.nodes.names)})

    @cached_property
    def pods_by_uid(self) -> dict[str, Pod]:
        """The pods that have a UID, by UID; empty if pods are not known."""
        return {pod.uid: pod for pod in self.pods if pod.uid} if self.pods_known else {}

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        """The pods placed on a node."""
        return self.nodes.pods(self.rows[node])

    def find(self, names: Sequence[str]) -> NDArray[np.intp]:
        """The rows of these nodes; `UNKNOWN_ROW` for an unknown name."""
        return self.rows.find(names)

    def with_nodes(self, objects: list[NodeObject]) -> "Snapshot":
        """The cluster with these nodes, which a request carried, added or replaced."""
        sent = Snapshot.build(objects, None)
        load = self.nodes.load
        if load is None:
            return sent
        every = list(self.nodes.objects)
        rows = NodeRows(self.rows)
        for node in objects:
            row = rows.setdefault(node.name, len(every))
            every[row : row + 1] = [node]
        new = len(every) - len(self.nodes)
        grown = Load([*load.requests, *[NO_REQUESTS] * new], [*load.pods, *[()] * new], load.tally)
        table = NodeTable(every, grown)
        return Snapshot(table, self._pods, rows=rows, objects=self.objects, unsettled=self.unsettled)

    def with_readings(self, readings: Readings) -> "Snapshot":
        """The same cluster with these readings of sources."""
        if readings is NO_READINGS:
            return self
        return Snapshot(
            self.nodes.with_readings(readings),
            self._pods,
            rows=self.rows,
            objects=self.objects,
            unsettled=self.unsettled,
            marks=self.marks,
            expected=self.expected,
        )

    def keeping(self, pods: Mapping[str, Collection[Pod]]) -> "Snapshot":
        """The same cluster, in which nodes are kept for these nominated pods, by node."""
        expected = {node: coming for node, coming in pods.items() if node in self.rows}
        if not expected:
            return self
        return Snapshot(
            self.nodes,
            self._pods,
            rows=self.rows,
            elsewhere=self._elsewhere,
            objects=self.objects,
            unsettled=self.unsettled,
            marks=self.marks,
            expected=expected,
        )

    def without(self, uids: Collection[str]) -> "Snapshot":
        """The cluster without the pods of these UIDs."""
        gone = [pod for uid in uids if (pod := self.pods_by_uid.get(uid)) is not None]
        return self._changed(gone=gone, arrived=[])

    def without_on(self, victims: Mapping[str, Collection[str]]) -> "Snapshot":
        """The cluster without the pods of these UIDs, given by node."""
        return self._changed(gone=self._on(victims), arrived=[])

    def cases(
        self,
        *,
        gone: Mapping[str, Collection[str]] = _NO_CHANGES,
        coming: Mapping[str, Collection[Pod]] = _NO_CHANGES,
    ) -> "Snapshot":
        """Many what-ifs in one snapshot, one for each node: some of its pods are gone, others have come.

        Columns, and counts by domain (`NodeTable.around`, `NodeTable.count`), show each node as if nothing
        had changed on the other nodes. A policy that reads the list of pods sees all changes.
        """
        waiting = [pod for pods in coming.values() for pod in pods]
        return self._changed(gone=[*self._on(gone), *waiting], arrived=self._coming(coming), apart=True)

    def placed(self, pod: Pod, node: str) -> "Snapshot":
        """The cluster with this pod on that node, moved there if it is on another."""
        before = [known] if (known := self.pods_by_uid.get(pod.uid)) else []
        spec = msgspec.structs.replace(pod.spec or NO_SPEC, node_name=node)
        return self._changed(gone=before, arrived=[msgspec.structs.replace(pod, spec=spec)])

    def expecting(self, pods: Mapping[str, Collection[Pod]]) -> "Snapshot":
        """The cluster with these waiting pods, nominated or planned, on their nodes."""
        arrived = self._coming(pods)
        if not arrived:
            return self
        # Waiting pods are on no node: to search for them among all pods would take far longer.
        waiting = [pod for node, coming in pods.items() if node in self.rows for pod in coming]
        return self._changed(gone=waiting, arrived=arrived)

    def _on(self, uids_by_node: Mapping[str, Collection[str]]) -> list[Pod]:
        return [
            pod
            for node, uids in uids_by_node.items()
            if node in self.rows
            for pod in self.pods_on(node)
            if pod.uid in uids
        ]

    def _coming(self, pods: Mapping[str, Collection[Pod]]) -> list[Pod]:
        return [
            msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec or NO_SPEC, node_name=node))
            for node, coming in pods.items()
            if node in self.rows
            for pod in coming
        ]

    def _changed(self, *, gone: list[Pod], arrived: list[Pod], apart: bool = False) -> "Snapshot":
        load = self.nodes.load
        if load is None:
            raise PodsUnknown("a cluster with other pods")
        if not gone and not arrived:
            # A new table would compute every pod column again.
            return self
        rows = self.rows
        requests, pods = in_pieces(load.requests), in_pieces(load.pods)
        gone_uids = {pod.uid for pod in gone}
        touched: set[int] = set()
        changes: list[tuple[Pod, int, int]] = []
        for pod in gone:
            row = rows.get(pod.node_name)
            if row is not None:
                touched.add(row)
                changes.append((pod, row, -1))
        for row in touched:
            pods[row] = tuple([pod for pod in pods[row] if pod.uid not in gone_uids])
        for pod in arrived:
            row = rows[pod.node_name]
            pods[row] += (pod,)
            touched.add(row)
            changes.append((pod, row, 1))
        for row in touched:
            requests[row] = total_requests(pods[row])

        def remaining() -> Sequence[Pod]:
            return [*(pod for pod in self.pods if pod.uid not in gone_uids), *arrived]

        changed = Load(requests, pods, load.tally.changed(changes), before=load.tally if apart else None)
        loaded = np.array(sorted(touched), dtype=np.intp)
        table = self.nodes.followed_by(self.nodes.objects, changed, changed=_NO_ROWS, loaded=loaded)
        return Snapshot(table, remaining, rows=rows, objects=self.objects, unsettled=self.unsettled)


def _load(rows: Mapping[str, int], pods: Iterable[Pod]) -> Load:
    placed: dict[int, list[Pod]] = {}
    for pod in pods:
        row = rows.get(pod.node_name)
        if row is not None:
            placed.setdefault(row, []).append(pod)
    requests: list[Mapping[str, int]] = [NO_REQUESTS] * len(rows)
    on_row: list[tuple[Pod, ...]] = [()] * len(rows)
    for row, pods_there in placed.items():
        on_row[row] = tuple(pods_there)
        requests[row] = total_requests(pods_there)
    return Load(requests, on_row)


def total_requests(pods: Iterable[Pod]) -> Mapping[str, int]:
    """The sum of these pods' requests, by resource; ``pods`` is their number."""
    return more_requests({"pods": 0}, pods)


def more_requests(known: Mapping[str, int], pods: Iterable[Pod]) -> Mapping[str, int]:
    """The sum ``known`` plus the requests of these pods."""
    total = dict(known)
    for pod in pods:
        total["pods"] = total.get("pods", 0) + 1
        try:
            requests = pod.requests
        except QuantityError as error:
            raise QuantityError(f"pod {pod.key}: {error}") from None
        for resource, value in requests.items():
            total[resource] = min(total.get(resource, 0) + value, INT64_MAX)
    return total
