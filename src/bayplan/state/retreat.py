"""A holder that does not see the cluster leaves the Lease to others: it can do nothing, and they may see.

No successor is looked for, as one that ends does: who sees nothing has no callers that would have to move.
"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Sight:
    """What a server knows of its view, and of its own binds."""

    blind: Callable[[], str] = str
    """Why it has seen nothing for too long; ``""`` while it sees."""
    binding: Callable[[], int] = int
    """How many binds are sent and not answered yet."""
    unsettled: Callable[[], int] = int
    """How many binds may still land."""


class Retreat:
    """The way of a holder that is blind: no bind begins, those under way end, then the Lease is given up."""

    def __init__(self, sight: Sight, *, margin_seconds: float, least_seconds: float) -> None:
        """What is sent may take ``margin_seconds``. The Lease is kept for ``least_seconds`` in any case.

        Where all see badly, it must not go round faster than it runs out.
        """
        self._sight = sight
        self._margin_seconds = margin_seconds
        self._least_seconds = least_seconds
        self._closed_at: float | None = None

    @property
    def closed(self) -> bool:
        """Whether no bind may begin any more."""
        return self._closed_at is not None

    @property
    def reason(self) -> str:
        """Why the Lease should be somebody else's; ``""`` where it need not be."""
        return self._sight.blind()

    def due(self, *, now: float, since: float) -> bool:
        """Whether a Lease that is ours ``since`` then is to be given up now; first, no bind begins any more.

        Evictions and what is written about volumes end within the margin as binds do, and nobody counts
        them. A bind that may still land is sent again until it is settled: that needs the Lease, and no
        closed door.
        """
        sight = self._sight
        if not sight.blind() or sight.unsettled() or now < since + self._least_seconds:
            self.stay()
            return False
        if self._closed_at is None:
            self._closed_at = now
        return now >= self._closed_at + self._margin_seconds and not sight.binding()

    def stay(self) -> None:
        """Binds may begin again, as far as our eyes are concerned."""
        self._closed_at = None
