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
        self._early: Tickets[float, Waiting] = Tickets()

    def until(self, waiting: Waiting) -> float:
        """When the pod may be judged again."""
        # After a thousand doublings there is no such number any more, and a pod may wait for days.
        doublings = min(max(1, waiting.attempts) - 1, _MOST_DOUBLINGS)
        seconds = self._first_seconds * 2.0**doublings
        return waiting.tried_at + min(self._longest_seconds, seconds)

    def begin(self, waiting: Waiting) -> None:
        """The pod pauses, for as long as its ticket is this one."""
        self._pausing.push((self.until(waiting), waiting.ticket, waiting))
        if not waiting.erred:
            self._early.push((waiting.tried_at + self._first_seconds, waiting.ticket, waiting))

    def early(self, now: float) -> Waiting | None:
        """One that pauses for longer than the first time, which nobody needs where nobody else is ready."""
        one = self._early.pop() if self.early_at() <= now else None
        return None if one is None else one[2]

    def early_at(self) -> float:
        """When there is such a one."""
        first = self._early.first()
        return math.inf if first is None else first[0]

    def over(self, now: float) -> Iterator[Waiting]:
        """Those that have paused long enough; they do not pause any more."""
        while self.next_at() <= now and (one := self._pausing.pop()) is not None:
            yield one[2]

    def next_at(self) -> float:
        """When the next of them has paused long enough."""
        first = self._pausing.first()
        return math.inf if first is None else first[0]
