"""A plan in the making: pods are put on nodes one after another, and each next one is judged with them there.

Far cheaper than a what-if copy for each. A step changes one row of the columns that somebody reads; the table
of all nodes is made only where somebody asks for it.
"""

import contextlib
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bayplan.kube.meta import EMPTY, NO_META
from bayplan.kube.pod import NO_SPEC, Pod
from bayplan.snapshot.cluster import Snapshot, more_requests
from bayplan.snapshot.load import Load
from bayplan.snapshot.marks import Marks
from bayplan.snapshot.pieces import in_pieces
from bayplan.snapshot.table import NodeTable
from bayplan.snapshot.tally import PodKinds, PodTable

_NO_ROWS = np.zeros(0, dtype=np.intp)


class Draft:
    """A cluster with some pods more than there are. Owned by one thread."""

    def __init__(self, cluster: Snapshot) -> None:
        load = cluster.nodes.load
        assert load is not None, "pods are placed where pods are known"
        self.began = cluster
        self.requests, self.pods = in_pieces(load.requests), in_pieces(load.pods)
        self.tally = load.tally.growing()
        self.placed: list[tuple[Pod, int]] = []
        """Every pod that was placed, as it is there, with its row."""
        self._marks = cluster.marks.drafted() if cluster.marks else None
        self._now: Snapshot = cluster
        # The last table that somebody asked for, and how many pods it has.
        self._table: tuple[NodeTable, int] = (cluster.nodes, 0)

    def place(self, pod: Pod, node: str, annotations: Mapping[str, str] = EMPTY) -> None:
        """The pod is on that node, with what it got there."""
        row = self.began.rows[node]
        there = _moved(pod, node, annotations)
        self.placed.append((there, row))
        self.pods[row] += (there,)
        self.requests[row] = more_requests(self.requests[row], (pod,))
        # Its kind does not depend on where it is.
        self.tally.add(pod, row)
        columns = self._columns
        for resource, values in columns.requested.items():
            values[row] = self.requests[row].get(resource, 0)
        for resource, (whole, values) in columns.free.items():
            values[row] = whole[row] - columns.requested[resource][row]
        for column, values in columns.of_load.items():
            values[row] = column.read_pods([self.pods[row]])[0]
        if self._marks is not None:
            self._marks = self._marks.after(row)
        self._now = _Drafted(self, self._marks)

    @property
    def snapshot(self) -> Snapshot:
        """The cluster with all that was placed so far."""
        return self._now

    def look(self, rows: NDArray[np.intp]) -> NodeTable:
        """Some nodes as they are now."""
        columns = self._columns
        chosen = rows.tolist()
        by_name = {f"{resource}.requested": values[rows] for resource, values in columns.requested.items()}
        for resource, (_, values) in columns.free.items():
            by_name[f"{resource}.free"] = values[rows]
        return self.began.nodes.rows_with(
            rows,
            Load([self.requests[row] for row in chosen], [self.pods[row] for row in chosen]),
            requested=by_name,
            of_load={column: values[rows] for column, values in columns.of_load.items()},
        )

    def table(self, count: int, tally: PodTable) -> NodeTable:
        """All nodes with the first pods that were placed, so many of them."""
        before, known = self._table if self._table[1] <= count else (self.began.nodes, 0)
        load = before.load
        assert load is not None, "pods are placed where pods are known"
        requests, pods = in_pieces(load.requests), in_pieces(load.pods)
        fresh = self.placed[known:count]
        for pod, row in fresh:
            pods[row] += (pod,)
            requests[row] = more_requests(requests[row], (pod,))
        loaded = np.array(sorted({row for _, row in fresh}), dtype=np.intp)
        changed = Load(requests, pods, tally)
        table = before.followed_by(before.objects, changed, changed=_NO_ROWS, loaded=loaded)
        self._table = (table, count)
        return table

    @cached_property
    def _columns(self) -> "_Columns":
        return _Columns(self.began.nodes)


class _Columns:
    """Our own copies of what is read of the pods on nodes; they change with each step."""

    def __init__(self, nodes: NodeTable) -> None:
        requested, of_load = nodes.kept_columns()
        self.requested = {name.rpartition(".")[0]: values.copy() for name, values in requested.items()}
        """By resource."""
        self.of_load = {column: values.copy() for column, values in of_load.items()}
        self.free: dict[str, tuple[NDArray[Any], NDArray[Any]]] = {}
        """By resource, what nodes have and what is left of it."""
        for resource, values in self.requested.items():
            # One that cannot be read is read again by whoever asks: his is the failure.
            with contextlib.suppress(Exception):
                whole = nodes[f"{resource}.allocatable"]
                self.free[resource] = (whole, whole - values)


class _Drafted(Snapshot):
    """The cluster at one step of a draft."""

    def __init__(self, draft: Draft, marks: Marks | None) -> None:
        count, began = len(draft.placed), draft.began
        tally = draft.tally.freeze()
        super().__init__(
            lambda: draft.table(count, tally),
            lambda: _with(began.pods, [pod for pod, _ in draft.placed[:count]]),
            rows=began.rows,
            objects=began.objects,
            unsettled=began.unsettled,
            marks=marks,
        )
        self._draft = draft
        self._count = count
        self._tally = tally

    @property
    def same_nodes(self) -> NodeTable:
        """The table that the draft began with."""
        return self._draft.began.nodes

    @property
    def kinds(self) -> tuple[PodKinds, int]:
        """The kinds of the placed pods, for which no table has to be made."""
        return self._tally.kinds

    def look(self, rows: NDArray[np.intp]) -> NodeTable:
        """Some nodes alone, for which no table of all is made while this is the last step."""
        if len(self._draft.placed) == self._count:
            return self._draft.look(rows)
        return super().look(rows)


def _with(pods: Any, placed: list[Pod]) -> list[Pod]:
    uids = {pod.uid for pod in placed}
    return [*(pod for pod in pods if pod.uid not in uids), *placed]


def _moved(pod: Pod, node: str, annotations: Mapping[str, str]) -> Pod:
    spec = msgspec.structs.replace(pod.spec or NO_SPEC, node_name=node)
    metadata = pod.metadata
    if annotations:
        metadata = msgspec.structs.replace(
            metadata or NO_META, annotations={**pod.annotations, **annotations}
        )
    moved = msgspec.structs.replace(pod, spec=spec, metadata=metadata)
    # What was worked out about the pod does not depend on where it is.
    moved.__dict__.update(pod.__dict__)
    return moved
