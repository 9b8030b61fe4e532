"""The pulse says whether a watch is alive, and if not, for how long it has been broken.

A watch that ended or went silent gets a few seconds to be reopened before it counts as broken: most are. It
then counts as broken since its last sign of life, not since we noticed.
"""

import asyncio
import time
from collections.abc import Callable

# A server that has forgotten our version opens the watch first, and sends 410 a moment later.
_PROOF_SECONDS = 1.0
# Opening a watch takes milliseconds, or a second or two while the server starts.
_DOUBT_SECONDS = 5.0


class Pulse:
    """The state of an informer's watches, one after another."""

    def __init__(self, *, doubt_seconds: float = _DOUBT_SECONDS) -> None:
        self.problem = ""
        """Why no watch is open; ``""`` while one is."""
        self._doubt_seconds = doubt_seconds
        self._heard_at = time.monotonic()
        self._lost_at: float | None = None
        self._broken_since: float | None = self._heard_at
        self._timer: asyncio.TimerHandle | None = None

    @property
    def age_seconds(self) -> float:
        """0 while a watch is open, else how long it has been broken."""
        return 0.0 if self._broken_since is None else time.monotonic() - self._broken_since

    def opened(self) -> None:
        """The server accepted the watch; a second without an error proves it, since events may be rare."""
        self._heard_at = time.monotonic()
        self._after(_PROOF_SECONDS, self.proven)

    def heard(self) -> None:
        """An event came, perhaps only a part of a list."""
        self._heard_at = time.monotonic()

    def proven(self) -> None:
        """The watch is open, and nothing was missed."""
        self._drop_timer()
        self._lost_at = self._broken_since = None
        self.problem = ""

    def ended(self) -> None:
        """The watch ended, as every watch does after some minutes."""
        self._lose(time.monotonic(), "the watch ended, and there is no answer to the next one yet")

    def fell_silent(self, problem: str) -> None:
        """No event came for too long."""
        self._lose(self._heard_at, problem)

    def broke(self, problem: str) -> None:
        """Opening a watch failed, or took too long."""
        self._drop_timer()
        self.problem = problem
        if self._broken_since is None:
            self._broken_since = time.monotonic() if self._lost_at is None else self._lost_at

    def _lose(self, at: float, problem: str) -> None:
        if self._lost_at is None:
            self._lost_at = at
        self._after(self._doubt_seconds, self.broke, problem)

    def _after(self, seconds: float, call: Callable[..., None], *arguments: str) -> None:
        self._drop_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, call, *arguments)

    def _drop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
