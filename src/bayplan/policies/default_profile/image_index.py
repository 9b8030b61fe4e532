"""Which nodes have an image: kept by image, and kept up with the nodes.

A cluster has thousands of images, and each node a list of fifty. Looking for one in every list takes a
millisecond; here the lists are gone through once, and after that only those of nodes that changed.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Images = Mapping[str, int]
"""Bytes of each image on a node, by name."""


@dataclass(frozen=True)
class Copies:
    """Where an image is: rows of nodes, in order, and its size on the first of them."""

    rows: NDArray[np.intp]
    size_bytes: int


class ImageIndex:
    """Follows the lists of nodes as they change; asked by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lists: NDArray[np.object_] = np.empty(0, dtype=np.object_)
        self._known: list[Images] = []
        self._rows: dict[str, dict[int, int]] = {}

    def copies(self, image: str, lists: NDArray[np.object_]) -> Copies:
        """Where the image is, among nodes with these lists."""
        with self._lock:
            self._follow(lists)
            there = self._rows.get(image, {})
            rows = np.fromiter(there, dtype=np.intp, count=len(there))
            rows.sort()
            return Copies(rows, there[int(rows[0])] if rows.size else 0)

    def _follow(self, lists: NDArray[np.object_]) -> None:
        """Row by row: a deadline may end this anywhere, and the next call goes on from there."""
        if lists is self._lists:
            return
        now: Sequence[Images] = lists.tolist()
        known = self._known
        while len(known) > len(now):
            self._take_away(len(known) - 1, known[-1])
            known.pop()
        for row in [row for row, before in enumerate(known) if now[row] is not before]:
            # A node that told of itself again, with nothing new, has another list with the same in it.
            if now[row] != known[row]:
                self._take_away(row, known[row])
                self._put(row, now[row])
            known[row] = now[row]
        for row in range(len(known), len(now)):
            self._put(row, now[row])
            known.append(now[row])
        self._lists = lists

    def _put(self, row: int, images: Images) -> None:
        for image, size_bytes in images.items():
            self._rows.setdefault(image, {})[row] = size_bytes

    def _take_away(self, row: int, images: Images) -> None:
        for image in images:
            there = self._rows.get(image, {})
            there.pop(row, None)
            if not there:
                self._rows.pop(image, None)
