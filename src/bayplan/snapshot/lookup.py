"""Looks up the rows of thousands of node names at a time.

A dictionary compares the text of each name, and the names of a large cluster are spread over memory: most of
a request was spent on cache misses. The hashes of all names fit into the processor's cache, so names are
looked up by hash alone. Python's string hash has 64 bits and a secret key, so that collisions are not to be
expected; if two names of the cluster itself collide, the dictionary is used.
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import repeat
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

UNKNOWN_ROW = -1
MANY = 1500
"""The number of names from which on the hash table is faster than the dictionary."""
# Slots per name in the hash table: with so many empty ones, few names collide.
_ROOM = 4


class NodeRows(dict[str, int]):
    """The row of each node, by name. It must not change after the first lookup."""

    def find_each(self, names: Sequence[str]) -> NDArray[np.intp] | None:
        """The rows of these nodes; ``None`` if a name is unknown or comes twice."""
        if len(names) < MANY or self._table is None:
            found = self.find_few(names)
            return None if found is None else np.array(found[0], dtype=np.intp)
        rows = self.find(names)
        return None if rows.min() == UNKNOWN_ROW or np.bincount(rows).max() > 1 else rows

    def find_few(self, names: Sequence[str]) -> tuple[list[int], set[int]] | None:
        """As `find_each`, as a list of ints and as a set of them.

        After a pause NumPy's code is not in the processor's cache: a call of it then takes longer than
        looking up a few hundred names.
        """
        try:
            if len(names) > 1:
                # Looks all names up in one call: a tenth faster than `map`. For one name it gives no tuple.
                found = list(itemgetter(*names)(self._compact))
            else:
                found = [self._compact[name] for name in names]
        except KeyError:
            return None
        different = set(found)
        return (found, different) if len(different) == len(found) else None

    def find(self, names: Sequence[str]) -> NDArray[np.intp]:
        """The rows of these nodes; `UNKNOWN_ROW` for an unknown name."""
        if len(names) < MANY or self._table is None:
            return np.fromiter(map(self.get, names, repeat(UNKNOWN_ROW)), dtype=np.intp, count=len(names))
        return self._table.find(np.fromiter(map(hash, names), dtype=np.int64, count=len(names)))

    @cached_property
    def _compact(self) -> dict[str, int]:
        """The same dictionary with copies of the names, which lie side by side in memory.

        The names of the Node objects are spread over memory. After a pause, with a cold cache, looking up 420
        names of 1,000 took 80 µs instead of 120, and 500 of 5,000 took 130 instead of 210.
        """
        return {(name + " ")[:-1]: row for name, row in self.items()}

    @cached_property
    def _table(self) -> "_HashTable | None":
        hashes = np.fromiter(map(hash, self), dtype=np.int64, count=len(self))
        rows = np.fromiter(self.values(), dtype=np.int32, count=len(self))
        return _HashTable(hashes, rows) if len(np.unique(hashes)) == len(hashes) else None


class _HashTable:
    """A hash table with linear probing that looks up many keys at once."""

    def __init__(self, hashes: NDArray[np.int64], rows: NDArray[np.int32]) -> None:
        size = 1 << (_ROOM * len(hashes) + 1).bit_length()
        self._mask = size - 1
        self._rows = rows
        # The key in each slot; len(hashes) marks an empty slot.
        self._places = np.full(size, len(hashes), dtype=np.int32)
        self._farthest = self._settle(hashes)
        self._hash_of = np.append(hashes, 0)
        self._row_of = np.append(rows, UNKNOWN_ROW).astype(np.intp)

    def _settle(self, hashes: NDArray[np.int64]) -> int:
        """Give each key a slot; returns the longest probe."""
        empty = len(hashes)
        left = np.arange(empty, dtype=np.int32)
        farthest = -1
        while left.size:
            farthest += 1
            wanted = (hashes[left] + farthest) & self._mask
            free = self._places[wanted] == empty
            # If several keys want one slot, the last one gets it.
            self._places[wanted[free]] = left[free]
            left = left[self._places[wanted] != left]
        return farthest

    def find(self, hashes: NDArray[np.int64]) -> NDArray[np.intp]:
        """The row of each key; `UNKNOWN_ROW` for an unknown key."""
        keys = self._places[hashes & self._mask]
        others = np.flatnonzero(self._hash_of[keys] != hashes)
        for step in range(1, self._farthest + 1):
            if not others.size:
                break
            keys[others] = self._places[(hashes[others] + step) & self._mask]
            others = others[self._hash_of[keys[others]] != hashes[others]]
        keys[others] = len(self._rows)
        rows: NDArray[np.intp] = self._row_of[keys]
        return rows
