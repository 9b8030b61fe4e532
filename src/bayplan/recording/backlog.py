"""A bounded queue of work for one background thread; work beyond the bound is refused."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
log = logging.getLogger(__name__)

_PATIENCE_SECONDS = 0.25
_LOOK_SECONDS = 0.001


class Backlog(Generic[T]):
    """A queue of items and the thread that processes them."""

    def __init__(
        self,
        work: Callable[[T], None],
        *,
        name: str,
        most: int,
        most_bytes: int,
        quiet: Callable[[], bool] = lambda: True,
        at_end: Callable[[], None] = lambda: None,
    ) -> None:
        """The thread calls ``work`` for each item, and ``at_end`` after the last.

        While few items wait, each waits for a ``quiet`` moment, though not for ever: threads share one
        interpreter, and answers to kube-scheduler come first.
        """
        self._work = work
        self._at_end = at_end
        self._most = most
        self._most_bytes = most_bytes
        self._quiet = quiet
        self._waiting: deque[tuple[T, int]] = deque()
        self._held_bytes = 0
        self._closed = False
        self._news = threading.Condition(threading.Lock())
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def offer(self, what: T, size_bytes: int = 0) -> bool:
        """Enqueue an item; false if the queue is full or closed."""
        with self._news:
            heavy = self._held_bytes > 0 and self._held_bytes + size_bytes > self._most_bytes
            if heavy or self._closed or len(self._waiting) >= self._most:
                return False
            self._waiting.append((what, size_bytes))
            self._held_bytes += size_bytes
            self._news.notify()
        return True

    def empty(self) -> bool:
        """Whether no item waits; the last one may still be in work."""
        return not self._waiting

    def close(self, wait_seconds: float) -> None:
        """Accept no more items, and wait for the rest for at most ``wait_seconds``."""
        with self._news:
            self._closed = True
            self._news.notify()
        self._thread.join(wait_seconds)

    def _run(self) -> None:
        while self._next():
            pass
        self._guarded(self._at_end)

    def _next(self) -> bool:
        with self._news:
            while not self._waiting and not self._closed:
                self._news.wait()
            if not self._waiting:
                return False
        self._wait_for_quiet()
        with self._news:
            what, size_bytes = self._waiting.popleft()
            self._held_bytes -= size_bytes
        self._guarded(lambda: self._work(what))
        return True

    def _wait_for_quiet(self) -> None:
        until = time.monotonic() + _PATIENCE_SECONDS
        while not self._closed and not self._pressing() and not self._quiet() and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)

    def _pressing(self) -> bool:
        return len(self._waiting) > self._most // 10 or self._held_bytes > self._most_bytes // 10

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException:
            # Without the thread, everything that comes later would be lost without a word.
            log.exception("%s: this is a bug in Bayplan", self._thread.name)
