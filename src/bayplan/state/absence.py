"""How long a server waits before it creates a Lease that does not exist.

The Lease may never have existed, or somebody may have deleted it while its holder does not know yet. A server
that finds none cannot tell the two apart. So it looks for a whole Lease duration before it creates one: by
then a holder has noticed and created it again, or the holder's time is over. Only the server that held the
Lease until this very look knows that it was its own.
"""

from dataclasses import dataclass


@dataclass
class Absence:
    """Since when we have found no Lease, by our own clock."""

    duration_seconds: float
    """How long a Lease lasts, as far as we know."""
    _since: float | None = None
    _looked_at: float = float("-inf")
    _wait_seconds: float = 0.0

    @property
    def wait_seconds(self) -> float | None:
        """How long no Lease must exist before we create one; ``None`` while one exists."""
        return None if self._since is None else self._wait_seconds

    def noted(self, now: float, *, held: bool, lasts_seconds: float = 0.0) -> None:
        """We looked and found no Lease.

        ``held`` says that we held it until now; ``lasts_seconds`` is the duration that another holder's Lease
        had when we saw it.
        """
        # Between two looks far apart, another server may have created, held and lost a Lease.
        unbroken = now - self._looked_at <= self.duration_seconds / 2
        if self._since is None or not unbroken:
            self._since = now
            self._wait_seconds = 0.0 if held else max(self.duration_seconds, lasts_seconds)
        self._looked_at = now

    def over(self, now: float) -> bool:
        """Whether no server can believe any more that it holds the Lease."""
        return self._since is not None and now >= self._since + self._wait_seconds

    def end(self) -> None:
        """The Lease exists."""
        self._since = None
