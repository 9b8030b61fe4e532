"""A holder that cannot see the cluster gives up the Lease: it cannot bind, and another server may see.

Unlike a holder that shuts down, it looks for no successor: no callers have to move.
"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Sight:
    """The state of a server's view and of its binds."""

    blind: Callable[[], str] = str
    """Why the server has been cut off from the cluster for too long; ``""`` while it sees it."""
    binding: Callable[[], int] = int
    """The number of bind requests without an answer yet."""
    unsettled: Callable[[], int] = int
    """The number of binds with an unknown outcome."""


class Retreat:
    """How a blind holder gives up the Lease: no new bind begins, binds under way end, then it gives it up."""

    def __init__(self, sight: Sight, *, margin_seconds: float, least_seconds: float) -> None:
        """A request may take ``margin_seconds``. A holder keeps the Lease for at least ``least_seconds``.

        Otherwise the Lease would go round and round where all servers are cut off.
        """
        self._sight = sight
        self._margin_seconds = margin_seconds
        self._least_seconds = least_seconds
        self._closed_at: float | None = None

    @property
    def closed(self) -> bool:
        """Whether new binds are forbidden."""
        return self._closed_at is not None

    @property
    def reason(self) -> str:
        """Why another server should hold the Lease; ``""`` if there is no reason."""
        return self._sight.blind()

    def due(self, *, now: float, since: float) -> bool:
        """Whether to give up a Lease that we hold ``since`` that time; before that, new binds are forbidden.

        Evictions and writes about volumes are not counted, but end within the margin, as binds do. A bind
        with an unknown outcome is sent again until it is settled: for that we must hold the Lease and may
        bind.
        """
        sight = self._sight
        if not sight.blind() or sight.unsettled() or now < since + self._least_seconds:
            self.stay()
            return False
        if self._closed_at is None:
            self._closed_at = now
        return now >= self._closed_at + self._margin_seconds and not sight.binding()

    def stay(self) -> None:
        """Allow new binds again."""
        self._closed_at = None
