"""Rows of nodes by name, thousands at a time.

A dictionary looks at the text of each name that it has, and those of a large cluster are spread over memory:
most of a request was spent waiting for them. Hashes of all names fit into the processor's cache. Python's
hash of a text has 64 bits and a secret key: two names with one hash are not to be expected, and where names
of the cluster itself share one, the dictionary is asked.
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

UNKNOWN_ROW = -1
MANY = 1500
"""Below, the dictionary is as fast."""
# So much of the table is empty that few names have to look farther than their own place.
_ROOM = 4


class NodeRows(dict[str, int]):
    """The row of each node, by name. It is not changed any more once rows were found in it."""

    def find_each(self, names: Sequence[str]) -> NDArray[np.intp] | None:
        """Rows of these nodes; ``None`` where one is not there, or is named twice."""
        if len(names) < MANY or self._table is None:
            found = self.find_few(names)
            return None if found is None else np.array(found[0], dtype=np.intp)
        rows = self.find(names)
        return None if rows.min() == UNKNOWN_ROW or np.bincount(rows).max() > 1 else rows

    def find_few(self, names: Sequence[str]) -> tuple[list[int], set[int]] | None:
        """As `find_each`, in plain numbers, and the set of them.

        After a pause NumPy's own code has to be fetched, and each of its functions takes longer than a few
        hundred names.
        """
        try:
            found = list(map(self._together.__getitem__, names))
        except KeyError:
            return None
        different = set(found)
        return (found, different) if len(different) == len(found) else None

    def find(self, names: Sequence[str]) -> NDArray[np.intp]:
        """Rows of these nodes; `UNKNOWN_ROW` for a name that is not there."""
        if len(names) < MANY or self._table is None:
            return np.fromiter(map(self.get, names, repeat(UNKNOWN_ROW)), dtype=np.intp, count=len(names))
        return self._table.find(np.fromiter(map(hash, names), dtype=np.int64, count=len(names)))

    @cached_property
    def _together(self) -> dict[str, int]:
        """The same with copies of the names that lie side by side in memory.

        Those that came with the nodes lie where the nodes do. After a pause, when each has to be fetched,
        finding 420 names of 1,000 took 80 µs instead of 120, and 500 of 5,000 took 130 instead of 210.
        """
        return {(name + " ")[:-1]: row for name, row in self.items()}

    @cached_property
    def _table(self) -> "_HashTable | None":
        hashes = np.fromiter(map(hash, self), dtype=np.int64, count=len(self))
        rows = np.fromiter(self.values(), dtype=np.int32, count=len(self))
        return _HashTable(hashes, rows) if len(np.unique(hashes)) == len(hashes) else None


class _HashTable:
    """Open addressing with the next place as the second choice, for many keys at once."""

    def __init__(self, hashes: NDArray[np.int64], rows: NDArray[np.int32]) -> None:
        size = 1 << (_ROOM * len(hashes) + 1).bit_length()
        self._mask = size - 1
        self._rows = rows
        # Of each place the key that is there; the last one is nobody's.
        self._places = np.full(size, len(hashes), dtype=np.int32)
        self._farthest = self._settle(hashes)
        self._hash_of = np.append(hashes, 0)
        self._row_of = np.append(rows, UNKNOWN_ROW).astype(np.intp)

    def _settle(self, hashes: NDArray[np.int64]) -> int:
        """Give each key a place; how far from its own the farthest one is."""
        nobody = len(hashes)
        left = np.arange(nobody, dtype=np.int32)
        farthest = -1
        while left.size:
            farthest += 1
            wanted = (hashes[left] + farthest) & self._mask
            free = self._places[wanted] == nobody
            # Where several want one place, the last one has it.
            self._places[wanted[free]] = left[free]
            left = left[self._places[wanted] != left]
        return farthest

    def find(self, hashes: NDArray[np.int64]) -> NDArray[np.intp]:
        """The row of each key; `UNKNOWN_ROW` where it is not there."""
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
