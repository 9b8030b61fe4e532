"""What can wait until the answer is out: writing a decision down, counting it.

By the time of the next request the processor's caches belong to other programs, and work that is done once
for each request finds nothing of its own there. Done for many requests in a row it takes half as long; and a
caller that asks without any pause is answered first.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable

log = logging.getLogger(__name__)

# So much may wait: a few megabytes, and some milliseconds of work.
_MANY, _MANY_NODES = 256, 4_000
_FAR_TOO_MANY = 1024
# A request that comes meanwhile waits no longer than this, and one piece of work.
_SLICE_SECONDS = 0.00025
# Nobody who looks sees the difference: whoever reads what is written down has the rest written first.
_SECONDS = 0.25


class Later:
    """Does it when there is much of it, when some time has passed, or when somebody wants to read it."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._nodes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._coming = False
        # One at a time, in the order it came; again by the same thread, where a reader is told of a decision.
        self._lock = threading.RLock()

    def put(self, work: Callable[[], None], *, nodes: int = 0) -> None:
        """Have it done, by the event loop, which is where this belongs; it keeps so many nodes in memory."""
        self._waiting.append(work)
        self._nodes += nodes
        if len(self._waiting) >= _FAR_TOO_MANY:
            # Many callers at once: they have to wait for it, or it would grow for ever.
            self.catch_up()
        elif len(self._waiting) >= _MANY or self._nodes >= _MANY_NODES:
            self._soon()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SECONDS, self._in_time)

    def catch_up(self) -> None:
        """Do all of it now; in any thread."""
        with self._lock:
            while self._waiting:
                self._do_one()
            self._nodes = 0

    def _in_time(self) -> None:
        self._timer = None
        self._soon()

    def _soon(self) -> None:
        # What is called soon comes after the answer was sent.
        if not self._coming:
            self._coming = True
            asyncio.get_running_loop().call_soon(self._do_some)

    def _do_some(self) -> None:
        """A slice of it, and the rest after whatever has come meanwhile."""
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
            # Whoever reads, or comes next, has nothing to do with it.
            log.exception("a decision was not written down: this is a bug in Bayplan")
