"""What can wait until the answer is out: writing a decision down, counting it.

By the time of the next request the processor's caches belong to other programs, and work that is done once
for each request finds nothing of its own there. Done for many requests in a row it takes half as long.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable

log = logging.getLogger(__name__)

# Most of what there is to gain; and a request that comes at that moment waits for a part of a millisecond.
_AT_ONCE, _NODES_AT_ONCE = 16, 4_000
# Nobody who looks sees the difference: whoever reads what is written down has the rest written first.
_SECONDS = 0.05


class Later:
    """Does it when there is much of it, when some time has passed, or when somebody wants to read it."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._nodes = 0
        self._timer: asyncio.TimerHandle | None = None
        # One at a time, in the order it came; again by the same thread, where a reader is told of a decision.
        self._lock = threading.RLock()

    def put(self, work: Callable[[], None], *, nodes: int = 0) -> None:
        """Have it done, by the event loop, which is where this belongs; it is about so many nodes."""
        self._waiting.append(work)
        self._nodes += nodes
        loop = asyncio.get_running_loop()
        if len(self._waiting) >= _AT_ONCE or self._nodes >= _NODES_AT_ONCE:
            # What is called soon comes after the answer was sent.
            loop.call_soon(self.catch_up)
            self._nodes = 0
        elif self._timer is None:
            self._timer = loop.call_later(_SECONDS, self._in_time)

    def catch_up(self) -> None:
        """Do all of it now; in any thread."""
        with self._lock:
            while self._waiting:
                work = self._waiting.popleft()
                try:
                    work()
                except Exception:
                    # Whoever reads, or comes next, has nothing to do with it.
                    log.exception("a decision was not written down: this is a bug in Bayplan")

    def _in_time(self) -> None:
        self._timer = None
        self.catch_up()
