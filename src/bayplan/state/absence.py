"""A Lease that is not there: it never was, or somebody has deleted it under a holder who does not know yet.

Who finds none cannot tell the one from the other. So it looks for as long as a Lease lasts before it makes
one: by then its holder has noticed and made it anew, or its time is over. Only who held it until this very
look knows whose it was.
"""

from dataclasses import dataclass


@dataclass
class Absence:
    """For how long we have looked for a Lease in vain, by our own clock."""

    duration_seconds: float
    """How long a Lease lasts, as far as we know."""
    _since: float | None = None
    _looked_at: float = float("-inf")
    _wait_seconds: float = 0.0

    @property
    def wait_seconds(self) -> float | None:
        """How long there must be none before we make one; ``None`` while there is one."""
        return None if self._since is None else self._wait_seconds

    def noted(self, now: float, *, held: bool, lasts_seconds: float = 0.0) -> None:
        """There is none; ``held`` where it was ours until now, ``lasts_seconds`` where we saw whose."""
        # Between looks that are far apart one may have been made, held and deleted.
        unbroken = now - self._looked_at <= self.duration_seconds / 2
        if self._since is None or not unbroken:
            self._since = now
            self._wait_seconds = 0.0 if held else max(self.duration_seconds, lasts_seconds)
        self._looked_at = now

    def over(self, now: float) -> bool:
        """Whether nobody can hold one any more."""
        return self._since is not None and now >= self._since + self._wait_seconds

    def end(self) -> None:
        """There is one."""
        self._since = None
