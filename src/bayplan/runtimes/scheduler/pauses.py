"""The backoff of pods after each attempt: it doubles, so that a pod that fits nowhere takes little time."""

import math
from collections.abc import Iterator

from bayplan.runtimes.scheduler.tickets import Tickets
from bayplan.runtimes.scheduler.waiting import Waiting

_MOST_DOUBLINGS = 60


class Pauses:
    """The pods in backoff, by when it ends."""

    def __init__(self, *, first_seconds: float, longest_seconds: float) -> None:
        self._first_seconds = first_seconds
        self._longest_seconds = longest_seconds
        self._pausing: Tickets[float, Waiting] = Tickets()
        self._early: Tickets[float, Waiting] = Tickets()

    def until(self, waiting: Waiting) -> float:
        """When the pod's backoff ends."""
        # Bounded: a pod may wait for days, and a thousand doublings would overflow.
        doublings = min(max(1, waiting.attempts) - 1, _MOST_DOUBLINGS)
        seconds = self._first_seconds * 2.0**doublings
        return waiting.tried_at + min(self._longest_seconds, seconds)

    def begin(self, waiting: Waiting) -> None:
        """Begin the pod's backoff; it counts as long as the pod keeps this ticket."""
        self._pausing.push((self.until(waiting), waiting.ticket, waiting))
        if not waiting.erred:
            self._early.push((waiting.tried_at + self._first_seconds, waiting.ticket, waiting))

    def early(self, now: float) -> Waiting | None:
        """Take a pod whose backoff has lasted for the length of a first one, if no other pod is ready."""
        one = self._early.pop() if self.early_at() <= now else None
        return None if one is None else one[2]

    def early_at(self) -> float:
        """When `early` has a pod."""
        first = self._early.first()
        return math.inf if first is None else first[0]

    def over(self, now: float) -> Iterator[Waiting]:
        """Take the pods whose backoff is over."""
        while self.next_at() <= now and (one := self._pausing.pop()) is not None:
            yield one[2]

    def next_at(self) -> float:
        """When the next backoff is over."""
        first = self._pausing.first()
        return math.inf if first is None else first[0]
