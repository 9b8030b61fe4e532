"""A heap with lazy deletion: an item counts only as long as its holder still has the ticket it came with.

Stale items are removed once they outnumber the others. So the heap stays small even if nothing is taken from
it, as in a stand-by scheduler.
"""

import heapq
from typing import Any, Generic, Protocol, TypeVar


class Holder(Protocol):
    """An item's holder, with its current ticket."""

    ticket: int


K = TypeVar("K")
W = TypeVar("W", bound=Holder)
_FEW = 1000


class Tickets(Generic[K, W]):
    """Items of key, ticket and holder, sorted by key, then by ticket."""

    def __init__(self) -> None:
        self._heap: list[tuple[Any, int, W]] = []
        self._most = _FEW

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, one: tuple[K, int, W]) -> None:
        """Add an item with its holder's current ticket."""
        heapq.heappush(self._heap, one)
        if len(self._heap) > self._most:
            self._heap = [each for each in self._heap if each[1] == each[2].ticket]
            heapq.heapify(self._heap)
            self._most = max(_FEW, 2 * len(self._heap))

    def first(self) -> tuple[K, int, W] | None:
        """The first item that is not stale."""
        while self._heap:
            if self._heap[0][1] == self._heap[0][2].ticket:
                return self._heap[0]
            # Stale: drop it.
            heapq.heappop(self._heap)
        return None

    def pop(self) -> tuple[K, int, W] | None:
        """Take the first item that is not stale."""
        return None if self.first() is None else heapq.heappop(self._heap)
