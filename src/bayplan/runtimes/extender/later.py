"""Defers journal and metrics work until answers are sent, and runs it in batches.

Between two requests other programs use the processor's caches, so work done once per request runs with cold
caches. In batches it takes half as long. A caller that asks without a pause gets its answers first.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable

log = logging.getLogger(__name__)

# A batch starts at so many pieces of work or nodes: a few megabytes, and some milliseconds of work.
_MANY, _MANY_NODES = 256, 4_000
_FAR_TOO_MANY = 1024
# A request that arrives meanwhile waits for one slice at most, plus one piece of work.
_SLICE_SECONDS = 0.00005
# The delay is invisible: readers of journal and metrics call `catch_up` first.
_SECONDS = 0.25


class Later:
    """A queue of deferred work; it runs when it is long, after `_SECONDS`, or when a reader needs it."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._nodes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._coming = False
        # Keeps the order. Reentrant: writing a decision may notify a reader, which calls `catch_up`.
        self._lock = threading.RLock()

    def put(self, work: Callable[[], None], *, nodes: int = 0) -> None:
        """Queue work, on the event loop; ``nodes`` says how much memory it holds until it runs."""
        self._waiting.append(work)
        self._nodes += nodes
        if len(self._waiting) >= _FAR_TOO_MANY:
            # Many callers at once: make them wait, or the queue would grow without bound.
            self.catch_up()
        elif len(self._waiting) >= _MANY or self._nodes >= _MANY_NODES:
            self._soon()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SECONDS, self._in_time)

    def catch_up(self) -> None:
        """Run all deferred work now, in any thread."""
        with self._lock:
            while self._waiting:
                self._do_one()
            self._nodes = 0

    def _in_time(self) -> None:
        self._timer = None
        self._soon()

    def _soon(self) -> None:
        # `call_soon` runs after the answer is sent.
        if not self._coming:
            self._coming = True
            asyncio.get_running_loop().call_soon(self._do_some)

    def _do_some(self) -> None:
        """Run one slice of the work, and the rest after requests that arrived meanwhile."""
        self._coming = False
        until = time.perf_counter() + _SLICE_SECONDS
        with self._lock:
            while self._waiting and time.perf_counter() < until:
                self._do_one()
        if self._waiting:
            self._soon()
        else:
            self._nodes = 0

    def _do_one(self) -> None:
        work = self._waiting.popleft()
        try:
            work()
        except Exception:
            # One failure must not stop the reader or the work behind it.
            log.exception("a decision was not written down: this is a bug in Bayplan")
