"""The handover of a Lease from a holder that shuts down to a successor, without a gap for callers.

The two servers talk by notes on the Lease itself (`notes`).
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from bayplan.state.notes import Notes

log = logging.getLogger(__name__)

_SUCCESSOR_SECONDS = 3.0
"""How long a leaving holder waits for a successor; servers that stand by read the Lease once a second."""
_UNASKED_SECONDS = 8.0
"""How long it waits until callers reach the successor: two readiness probes, and the update of endpoints."""
_ASKED_SECONDS = 1.5
"""How long it still serves its own callers after that; calls to the successor wait meanwhile."""


@dataclass(frozen=True)
class Callers:
    """The calls and binds of a server that leaves."""

    quiet: Callable[[], bool]
    """Whether no call has come for a while."""
    binding: Callable[[], int]
    """The number of binds under way."""
    unsettled: Callable[[], int]
    """The number of binds with an unknown outcome."""


class Departure:
    """The side of the holder that leaves: it waits until callers have moved and all its binds are settled."""

    def __init__(self, callers: Callers, *, expects: bool = False) -> None:
        """With ``expects`` it waits for a successor even if no server has noted yet that it stands by."""
        self.over = asyncio.Event()
        """Set when there is nothing left to wait for."""
        self.closed = False
        """Whether new binds are forbidden."""
        self.successor = ""
        """The server that callers have moved to; ``""`` until they have."""
        self._callers = callers
        self._expects = expects
        self._since: float | None = None
        self._named_at: float | None = None
        self._asked_at: float | None = None

    def due(self, notes: Notes, *, now: float) -> bool:
        """Whether to hand the Lease over now; new binds are forbidden from a little earlier on."""
        self.closed = self._moved(notes, now) and not self._callers.unsettled()
        return self.closed and not self._callers.binding()

    def failed(self) -> None:
        """The API server did not answer; without a successor so far, stop waiting for one."""
        if self._named_at is None:
            self.over.set()

    def _moved(self, notes: Notes, now: float) -> bool:
        if self._since is None:
            self._since = now
        if not notes.successor:
            alone = not (notes.standby or self._expects)
            if alone or now >= self._since + _SUCCESSOR_SECONDS:
                self.over.set()
            return False
        if self._named_at is None:
            self._named_at = now
        if self._asked_at is None:
            if notes.asked != notes.successor:
                return now >= self._named_at + _UNASKED_SECONDS
            self._asked_at, self.successor = now, notes.successor
        return self._callers.quiet() or now >= self._asked_at + _ASKED_SECONDS


class Succession:
    """The side of the successor: from its note on the Lease until it holds the Lease, calls to it wait."""

    def __init__(
        self,
        *,
        able: Callable[[], bool] = lambda: False,
        on_change: Callable[[bool], None] = lambda _: None,
    ) -> None:
        """``able`` says whether we could take over now. ``on_change`` is told whether calls must wait."""
        self.able = able
        self.held = 0
        """The number of calls that have waited."""
        self.begun = False
        """Whether we are the successor and accept calls, which wait for the Lease."""
        self.wake: Callable[[], None] = lambda: None
        self._on_change = on_change
        self._ended = asyncio.Event()
        self._first_at = 0.0

    def begin(self) -> None:
        """Become the successor: calls wait from now on."""
        if not self.begun:
            self.begun, self.held, self._ended = True, 0, asyncio.Event()
            self._on_change(True)

    def end(self) -> None:
        """Let calls go on: the Lease is ours, or will not become ours."""
        if self.begun:
            self.begun = False
            if self.held:
                waited = time.monotonic() - self._first_at
                log.info("%d calls have waited for the Lease, %.1f s at the longest", self.held, waited)
            self._ended.set()
            self._on_change(False)

    async def hold(self, timeout_seconds: float) -> None:
        """Wait until a call may go on, or until the timeout."""
        if not self.begun:
            return
        self.held += 1
        if self.held == 1:
            self.wake()
            self._first_at = time.monotonic()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._ended.wait()
