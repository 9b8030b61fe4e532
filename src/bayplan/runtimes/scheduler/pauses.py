"""The pause of a pod after each attempt. It doubles: who fits nowhere does not take everybody's time."""

import math
from collections.abc import Iterator

from bayplan.runtimes.scheduler.tickets import Tickets
from bayplan.runtimes.scheduler.waiting import Waiting

_MOST_DOUBLINGS = 60


class Pauses:
    """The pods that pause, by when that is over."""

    def __init__(self, *, first_seconds: float, longest_seconds: float) -> None:
        self._first_seconds = first_seconds
        self._longest_seconds = longest_seconds
        self._pausing: Tickets[float, Waiting] = Tickets()

    def until(self, waiting: Waiting) -> float:
        """When the pod may be judged again."""
        # After a thousand doublings there is no such number any more, and a pod may wait for days.
        doublings = min(max(1, waiting.attempts) - 1, _MOST_DOUBLINGS)
        seconds = self._first_seconds * 2.0**doublings
        return waiting.tried_at + min(self._longest_seconds, seconds)

    def begin(self, waiting: Waiting) -> None:
        """The pod pauses, for as long as its ticket is this one."""
        self._pausing.push((self.until(waiting), waiting.ticket, waiting))

    def over(self, now: float) -> Iterator[Waiting]:
        """Those that have paused long enough; they do not pause any more."""
        while self.next_at() <= now and (one := self._pausing.pop()) is not None:
            yield one[2]

    def next_at(self) -> float:
        """When the next of them has paused long enough."""
        first = self._pausing.first()
        return math.inf if first is None else first[0]
