"""The pods that are ready to be judged, in their order: who is next, and who comes after that."""

from collections.abc import Callable
from typing import Any

from bayplan.kube.pod import Pod
from bayplan.runtimes.scheduler.tickets import Tickets
from bayplan.runtimes.scheduler.waiting import Waiting


class Line:
    """Pods by what policies say of their place, or else by priority, and then by who came first."""

    def __init__(self, order: Callable[[Pod], Any]) -> None:
        self._order = order
        self._ready: Tickets[Any, Waiting] = Tickets()

    def join(self, waiting: Waiting) -> None:
        """The pod is ready, for as long as its ticket is this one."""
        key = self._order(waiting.pod) if waiting.key is None else waiting.key
        self._ready.push((key, waiting.ticket, waiting))

    def take(self) -> Waiting | None:
        """The next one, which stands here no more; ``None`` where there is none."""
        found = self._ready.pop()
        return None if found is None else found[2]

    def ahead(self, count: int) -> list[Waiting]:
        """The next ones, as many as that, in their order; they stay."""
        found: list[tuple[Any, int, Waiting]] = []
        while len(found) < count and (one := self._ready.pop()) is not None:
            found.append(one)
        for one in found:
            self._ready.push(one)
        return [waiting for _, _, waiting in found]
