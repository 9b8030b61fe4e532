"""A heap of those who wait, each with the ticket it had: whoever has another one by now is passed over.

Those who left are taken out when they are more than those who are there. So it stays small also where nobody
takes from it, as in a scheduler that stands by while another one places all pods.
"""

import heapq
from typing import Any, Generic, Protocol, TypeVar


class Holder(Protocol):
    """Somebody who waits, with the ticket of his present place."""

    ticket: int


K = TypeVar("K")
W = TypeVar("W", bound=Holder)
_FEW = 1000


class Tickets(Generic[K, W]):
    """Keys, tickets and whose they are; the smallest key is the first, then the oldest ticket."""

    def __init__(self) -> None:
        self._heap: list[tuple[Any, int, W]] = []
        self._most = _FEW

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, one: tuple[K, int, W]) -> None:
        """Add one, with the ticket that it has now."""
        heapq.heappush(self._heap, one)
        if len(self._heap) > self._most:
            self._heap = [each for each in self._heap if each[1] == each[2].ticket]
            heapq.heapify(self._heap)
            self._most = max(_FEW, 2 * len(self._heap))

    def first(self) -> tuple[K, int, W] | None:
        """The first one that has not left."""
        while self._heap:
            if self._heap[0][1] == self._heap[0][2].ticket:
                return self._heap[0]
            # It must not hide who comes after it.
            heapq.heappop(self._heap)
        return None

    def pop(self) -> tuple[K, int, W] | None:
        """The same, which is not here any more."""
        return None if self.first() is None else heapq.heappop(self._heap)
