"""The columns that a table has computed so far, and their update for the next table.

Only changed rows are read again. Policy threads may add a column at any moment, so that loops go over a copy.
Columns that were not read for long are dropped.
"""

import contextlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayplan.kube.node import NodeObject
from bayplan.snapshot.columns import Column, PodColumn, Values
from bayplan.snapshot.lastread import LastRead
from bayplan.snapshot.load import Load
from bayplan.snapshot.patched import patched, patched_array
from bayplan.snapshot.sources import Latch, Reading, Source
from bayplan.snapshot.units import Units

Rows = NDArray[np.intp]


class Kept:
    """The computed columns of a table, by what they are made of."""

    __slots__ = ("last_read", "named", "of_load", "sourced", "static", "units")

    def __init__(self, last_read: LastRead | None = None) -> None:
        self.last_read = LastRead() if last_read is None else last_read
        self.static: dict[Column, Values] = {}
        """Columns of Node objects alone, shared by tables that differ only in their pods."""
        self.named: dict[str, Any] = {}
        """``requested`` and ``free`` columns, by name; in a part of a table, all named columns."""
        self.units: dict[Units, NDArray[np.int64]] = {}
        """Free amounts by device."""
        self.of_load: dict[PodColumn, NDArray[Any]] = {}
        """Columns of the pods on each node."""
        self.sourced: dict[Source | Latch, tuple[Reading, Values]] = {}
        """Source columns, each with its reading: valid while that is the source's last one."""

    def of_pods(self) -> tuple[dict[str, NDArray[Any]], dict[PodColumn, NDArray[Any]]]:
        """The ``requested`` columns and the pod columns that were read lately."""
        requested = {
            name: values for name, values in self.last_read.of(self.named) if name.endswith(".requested")
        }
        return requested, dict(self.last_read.of(self.of_load))

    def after(
        self, objects: list[NodeObject], load: Load | None, *, changed: Rows, loaded: Rows, resized: bool
    ) -> "Kept":
        """The columns after a few changes; the arguments are those of `NodeTable.followed_by`."""
        following = Kept(self.last_read)
        if changed.size or resized:
            following.static = self._static_after(objects, changed)
            following.sourced = self._sourced_after(objects, changed)
        else:
            following.static = self.static
            following.sourced = dict(self.last_read.of(self.sourced))
        # Without known pods there are no columns about them.
        if load is not None:
            following.named = self._requested_after(len(objects), load, loaded)
            following.units = self._units_after(objects, load, loaded)
            following.of_load = self._of_load_after(len(objects), load, loaded)
        return following

    def _static_after(self, objects: list[NodeObject], changed: Rows) -> dict[Column, Values]:
        fresh = [objects[row] for row in changed.tolist()]
        found = {}
        for column, known in self.last_read.of(self.static):
            # A column that cannot be read is dropped: the error belongs to the policy that reads it next.
            with contextlib.suppress(Exception):
                found[column] = patched(known, len(objects), changed, column.read(fresh))
        return found

    def _sourced_after(
        self, objects: list[NodeObject], changed: Rows
    ) -> dict[Source | Latch, tuple[Reading, Values]]:
        fresh = [objects[row] for row in changed.tolist()]
        return {
            column: (reading, patched(known, len(objects), changed, reading.read(column, fresh)))
            for column, (reading, known) in self.last_read.of(self.sourced)
        }

    def _requested_after(self, size: int, load: Load, loaded: Rows) -> dict[str, Any]:
        found = {}
        for name, known in self.last_read.of(self.named):
            resource, _, aspect = name.rpartition(".")
            if aspect == "requested":
                requests = [load.requests[row].get(resource, 0) for row in loaded.tolist()]
                found[name] = patched_array(known, size, loaded, np.array(requests, dtype=np.int64))
        return found

    def _units_after(
        self, objects: list[NodeObject], load: Load, loaded: Rows
    ) -> dict[Units, NDArray[np.int64]]:
        nodes = [objects[row] for row in loaded.tolist()]
        pods = [load.pods[row] for row in loaded.tolist()]
        found = {}
        for units, known in self.last_read.of(self.units):
            width = known.shape[1]
            fresh = units.read_loaded(nodes, pods, devices=width)
            # A node with more devices than any before makes the column wider: then it is read anew.
            if fresh.shape[1] == width:
                found[units] = patched_array(known, len(objects), loaded, fresh)
        return found

    def _of_load_after(self, size: int, load: Load, loaded: Rows) -> dict[PodColumn, NDArray[Any]]:
        pods = [load.pods[row] for row in loaded.tolist()]
        found = {}
        for column, known in self.last_read.of(self.of_load):
            # Dropped if it cannot be read, as in `_static_after`, or if its values do not fit: then the next
            # reader gets it read anew, with the type that all its values need.
            with contextlib.suppress(Exception):
                found[column] = patched_array(known, size, loaded, column.read_pods(pods))
        return found
