"""Pins policy threads to the core of the event loop, which makes handing work over about ten times cheaper.

A thread woken on an idle core waits until that core is awake: a round trip took 75 µs on a virtual machine,
and 9 µs on the core of the waking thread. Threads that share an interpreter gain nothing from a second core.
Linux only; elsewhere, and where it is not allowed, the kernel places threads.
"""

import ctypes
import logging
import os
from collections.abc import Iterable

log = logging.getLogger(__name__)


class OneCore:
    """Pins threads to the core of the calling thread, or lets them run anywhere again."""

    def __init__(self) -> None:
        self._where = _find_out()
        self._everywhere = os.sched_getaffinity(0) if self._where is not None else set()
        self._there = -1

    def gather(self, threads: Iterable[int | None]) -> None:
        """Pin the threads to the calling thread's core, if they are not there already."""
        if self._where is None:
            return
        core = self._where()
        if core != self._there:
            self._move(threads, {core}, core)

    def spread(self, threads: Iterable[int | None]) -> None:
        """Let the threads run on any core."""
        if self._where is not None and self._there != -1:
            self._move(threads, self._everywhere, -1)

    def _move(self, threads: Iterable[int | None], cores: set[int], there: int) -> None:
        self._there = there
        try:
            for thread in threads:
                if thread is not None:
                    os.sched_setaffinity(thread, cores)
        except ProcessLookupError:
            # A thread has ended; its replacement may be on any core.
            self._there = -1
        except OSError as error:
            log.debug("threads run on any core: %s", error)
            self._where = None


def _find_out() -> "ctypes._NamedFuncPointer | None":
    """``sched_getcpu``; ``None`` if it does not exist or there is only one core."""
    if not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2:
        return None
    found = getattr(ctypes.CDLL(None), "sched_getcpu", None)
    if found is not None:
        found.argtypes = []
    return found
