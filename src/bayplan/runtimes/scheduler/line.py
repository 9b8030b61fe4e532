"""The ready pods of the queue, in their order."""

from collections.abc import Callable
from typing import Any

from bayplan.kube.pod import Pod
from bayplan.runtimes.scheduler.tickets import Tickets
from bayplan.runtimes.scheduler.waiting import Waiting


class Line:
    """Ready pods by the key of an ``order`` hook or else by priority, then first come, first served."""

    def __init__(self, order: Callable[[Pod], Any]) -> None:
        self._order = order
        self._ready: Tickets[Any, Waiting] = Tickets()

    def join(self, waiting: Waiting) -> None:
        """Add a ready pod; it counts as long as it keeps this ticket."""
        key = self._order(waiting.pod) if waiting.key is None else waiting.key
        self._ready.push((key, waiting.ticket, waiting))

    def take(self) -> Waiting | None:
        """Take the next pod; ``None`` if there is none."""
        found = self._ready.pop()
        return None if found is None else found[2]

    def ahead(self, count: int) -> list[Waiting]:
        """The next ``count`` pods in order, without taking them."""
        found: list[tuple[Any, int, Waiting]] = []
        while len(found) < count and (one := self._ready.pop()) is not None:
            found.append(one)
        for one in found:
            self._ready.push(one)
        return [waiting for _, _, waiting in found]
