"""The pause of a pod after each attempt. It doubles: who fits nowhere does not take everybody's time."""

import heapq
import math
from collections.abc import Iterator

from bayplan.runtimes.scheduler.waiting import Waiting


class Pauses:
    """The pods that pause, by when that is over."""

    def __init__(self, *, first_seconds: float, longest_seconds: float) -> None:
        self._first_seconds = first_seconds
        self._longest_seconds = longest_seconds
        self._pausing: list[tuple[float, int, Waiting]] = []

    def until(self, waiting: Waiting) -> float:
        """When the pod may be judged again."""
        seconds = self._first_seconds * 2.0 ** (max(1, waiting.attempts) - 1)
        return waiting.tried_at + min(self._longest_seconds, seconds)

    def begin(self, waiting: Waiting) -> None:
        """The pod pauses, for as long as its ticket is this one."""
        heapq.heappush(self._pausing, (self.until(waiting), waiting.ticket, waiting))

    def over(self, now: float) -> Iterator[Waiting]:
        """Those that have paused long enough; they do not pause any more."""
        while self.next_at() <= now:
            yield heapq.heappop(self._pausing)[2]

    def next_at(self) -> float:
        """When the next of them has paused long enough."""
        while self._pausing:
            at, ticket, waiting = self._pausing[0]
            if ticket == waiting.ticket:
                return at
            # It left before its time, and must not hide who comes after it.
            heapq.heappop(self._pausing)
        return math.inf
