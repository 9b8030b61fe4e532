"""A draft places pods on nodes one after another; its snapshot has all of them, for the next decision.

It is far cheaper than a what-if copy for each pod: a step changes one row of the columns that policies read,
and the table of all nodes is made only if a policy asks for it.
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
from bayplan.snapshot.load import Load, PodsUnknown
from bayplan.snapshot.marks import Marks
from bayplan.snapshot.patched import fits
from bayplan.snapshot.pieces import in_pieces
from bayplan.snapshot.table import NodeTable
from bayplan.snapshot.tally import PodKinds, PodTable

_NO_ROWS = np.zeros(0, dtype=np.intp)


class Draft:
    """A cluster with additional pods. Owned by one thread."""

    def __init__(self, cluster: Snapshot) -> None:
        load = cluster.nodes.load
        if load is None:
            raise PodsUnknown("a cluster with other pods")
        self.began = cluster
        self.requests, self.pods = in_pieces(load.requests), in_pieces(load.pods)
        self.tally = load.tally.growing()
        self.placed: list[tuple[Pod, int]] = []
        """The pods placed so far, each with its node and annotations set, and its row."""
        self._marks = cluster.marks.drafted() if cluster.marks else None
        self._now: Snapshot = cluster
        # The last table that was asked for, and how many of the placed pods it has.
        self._table: tuple[NodeTable, int] = (cluster.nodes, 0)

    def place(self, pod: Pod, node: str, annotations: Mapping[str, str] = EMPTY) -> None:
        """Place a pod on a node, with the annotations of its allocation."""
        row = self.began.rows[node]
        placed = _placed(pod, node, annotations)
        self.placed.append((placed, row))
        self.pods[row] += (placed,)
        self.requests[row] = more_requests(self.requests[row], (pod,))
        # A pod's kind does not depend on its node.
        self.tally.add(pod, row)
        columns = self._columns
        for resource, values in columns.requested.items():
            values[row] = self.requests[row].get(resource, 0)
        for resource, (whole, values) in columns.free.items():
            values[row] = whole[row] - columns.requested[resource][row]
        for column, values in list(columns.of_load.items()):
            # As in `Kept`: a column that cannot be read, or whose value does not fit, is left to its reader.
            del columns.of_load[column]
            with contextlib.suppress(Exception):
                fresh = column.read_pods([self.pods[row]])
                if fits(values, fresh):
                    values[row] = fresh[0]
                    columns.of_load[column] = values
        if self._marks is not None:
            self._marks = self._marks.after(row)
        self._now = _Drafted(self, self._marks)

    @property
    def snapshot(self) -> Snapshot:
        """The cluster with all pods placed so far."""
        return self._now

    def look(self, rows: NDArray[np.intp]) -> NodeTable:
        """A table of these rows, as they are now."""
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
        """A table of all nodes with the first ``count`` placed pods."""
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
    """The draft's own copies of the columns about pods; each step changes one row of them."""

    def __init__(self, nodes: NodeTable) -> None:
        requested, of_load = nodes.kept_columns()
        self.requested = {name.rpartition(".")[0]: values.copy() for name, values in requested.items()}
        """What pods request on each node, by resource."""
        self.of_load = {column: values.copy() for column, values in of_load.items()}
        self.free: dict[str, tuple[NDArray[Any], NDArray[Any]]] = {}
        """What each node has and what is free, by resource."""
        for resource, values in self.requested.items():
            # A column that cannot be read fails again in the policy that reads it, where the error belongs.
            with contextlib.suppress(Exception):
                whole = nodes[f"{resource}.allocatable"]
                self.free[resource] = (whole, whole - values)


class _Drafted(Snapshot):
    """The snapshot at one step of a draft."""

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
        """The kinds of pods, and how many of them this snapshot knows; makes no table."""
        return self._tally.kinds

    def look(self, rows: NDArray[np.intp]) -> NodeTable:
        """A table of these rows; makes no table of all nodes while this is the draft's last step."""
        if len(self._draft.placed) == self._count:
            return self._draft.look(rows)
        return super().look(rows)


def _with(pods: Any, placed: list[Pod]) -> list[Pod]:
    uids = {pod.uid for pod in placed}
    return [*(pod for pod in pods if pod.uid not in uids), *placed]


def _placed(pod: Pod, node: str, annotations: Mapping[str, str]) -> Pod:
    spec = msgspec.structs.replace(pod.spec or NO_SPEC, node_name=node)
    metadata = pod.metadata
    if annotations:
        metadata = msgspec.structs.replace(
            metadata or NO_META, annotations={**pod.annotations, **annotations}
        )
    placed = msgspec.structs.replace(pod, spec=spec, metadata=metadata)
    # The pod's cached properties depend neither on its node nor on its annotations.
    placed.__dict__.update(pod.__dict__)
    return placed
