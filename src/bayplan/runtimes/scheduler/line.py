"""The pods that are ready to be judged, in their order: who is next, and who comes after that."""

import heapq
from collections.abc import Callable
from typing import Any

from bayplan.kube.pod import Pod
from bayplan.runtimes.scheduler.waiting import Waiting


class Line:
    """Pods by what policies say of their place, or else by priority, and then by who came first."""

    def __init__(self, order: Callable[[Pod], Any]) -> None:
        self._order = order
        self._ready: list[tuple[Any, int, Waiting]] = []

    def join(self, waiting: Waiting) -> None:
        """The pod is ready, for as long as its ticket is this one."""
        key = self._order(waiting.pod) if waiting.key is None else waiting.key
        heapq.heappush(self._ready, (key, waiting.ticket, waiting))

    def take(self) -> Waiting | None:
        """The next one, which stands here no more; ``None`` where there is none."""
        found = self._take()
        return None if found is None else found[2]

    def ahead(self, count: int) -> list[Waiting]:
        """The next ones, as many as that, in their order; they stay."""
        found: list[tuple[Any, int, Waiting]] = []
        while len(found) < count and (one := self._take()) is not None:
            found.append(one)
        for one in found:
            heapq.heappush(self._ready, one)
        return [waiting for _, _, waiting in found]

    def _take(self) -> tuple[Any, int, Waiting] | None:
        while self._ready:
            one = heapq.heappop(self._ready)
            if one[1] == one[2].ticket:
                return one
        return None
