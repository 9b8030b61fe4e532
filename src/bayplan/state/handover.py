"""A Lease changes hands while its holder lives: the one says that it leaves, another one that it comes.

They talk by notes on the Lease itself (`notes`).
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
"""How long one that leaves waits for a successor: those who stand by look once a second."""
_UNASKED_SECONDS = 8.0
"""How long it waits until a successor is asked: two probes, and the way to every caller."""
_ASKED_SECONDS = 1.5
"""How long it goes on while it is still asked itself: the calls of the successor wait meanwhile."""


@dataclass(frozen=True)
class Callers:
    """What a server that leaves knows of its own calls."""

    quiet: Callable[[], bool]
    """Whether nobody has asked for a while."""
    binding: Callable[[], int]
    """How many binds are under way."""
    unsettled: Callable[[], int]
    """How many binds may still land."""


class Departure:
    """The way of a holder that leaves: until another one has its callers, and none of its binds is open."""

    def __init__(self, callers: Callers, *, expects: bool = False) -> None:
        """``expects``: there may be a successor, although nobody has said yet that he stands by."""
        self.over = asyncio.Event()
        """Set when there is nothing to wait for any more."""
        self.closed = False
        """Whether no bind may begin any more."""
        self.successor = ""
        """To whom callers have moved, as soon as they have."""
        self._callers = callers
        self._expects = expects
        self._since: float | None = None
        self._named_at: float | None = None
        self._asked_at: float | None = None

    def due(self, notes: Notes, *, now: float) -> bool:
        """Whether the Lease is to be handed over now; from then on no bind begins."""
        self.closed = self._moved(notes, now) and not self._callers.unsettled()
        return self.closed and not self._callers.binding()

    def failed(self) -> None:
        """The API server could not be asked; who has no successor yet does not wait for one."""
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
    """The way of one that comes: from saying so until the Lease is its own, its calls wait."""

    def __init__(
        self,
        *,
        able: Callable[[], bool] = lambda: False,
        on_change: Callable[[bool], None] = lambda _: None,
    ) -> None:
        """``able``: whether we could take over now. ``on_change`` hears whether calls are to wait."""
        self.able = able
        self.held = 0
        """How many calls have come and waited."""
        self.begun = False
        """Whether calls may come, though the Lease is not ours yet."""
        self.wake: Callable[[], None] = lambda: None
        self._on_change = on_change
        self._ended = asyncio.Event()
        self._first_at = 0.0

    def begin(self) -> None:
        """We are the successor; calls are to wait."""
        if not self.begun:
            self.begun, self.held, self._ended = True, 0, asyncio.Event()
            self._on_change(True)

    def end(self) -> None:
        """The Lease is ours, or will not be: calls go on."""
        if self.begun:
            self.begun = False
            if self.held:
                waited = time.monotonic() - self._first_at
                log.info("%d calls have waited for the Lease, %.1f s at the longest", self.held, waited)
            self._ended.set()
            self._on_change(False)

    async def hold(self, timeout_seconds: float) -> None:
        """Wait until a call may go on, or for so long."""
        if not self.begun:
            return
        self.held += 1
        if self.held == 1:
            self.wake()
            self._first_at = time.monotonic()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._ended.wait()
