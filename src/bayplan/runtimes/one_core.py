"""Threads that never run at once, kept on one core: handing work over costs a tenth of what it does else.

A thread that is woken on an idle core waits until that core is up: there and back took 75 µs on a virtual
machine, and 9 µs where it takes over the core of whoever woke it. Where threads share an interpreter, the
second core gains nothing. Linux alone; elsewhere, and where it is not allowed, threads run where the kernel
puts them.
"""

import ctypes
import logging
import os
from collections.abc import Iterable

log = logging.getLogger(__name__)


class OneCore:
    """Keeps some threads where the calling thread is, or lets them go anywhere again."""

    def __init__(self) -> None:
        self._where = _find_out()
        self._everywhere = os.sched_getaffinity(0) if self._where is not None else set()
        self._there = -1

    def gather(self, threads: Iterable[int | None]) -> None:
        """Bring them to the core that we are on, where they are not there already."""
        if self._where is None:
            return
        core = self._where()
        if core != self._there:
            self._move(threads, {core}, core)

    def spread(self, threads: Iterable[int | None]) -> None:
        """Let them run anywhere."""
        if self._where is not None and self._there != -1:
            self._move(threads, self._everywhere, -1)

    def _move(self, threads: Iterable[int | None], cores: set[int], there: int) -> None:
        self._there = there
        try:
            for thread in threads:
                if thread is not None:
                    os.sched_setaffinity(thread, cores)
        except ProcessLookupError:
            # It ended meanwhile; whoever takes its place starts anywhere.
            self._there = -1
        except OSError as error:
            log.debug("threads run on any core: %s", error)
            self._where = None


def _find_out() -> "ctypes._NamedFuncPointer | None":
    """The function that tells the core we are on; ``None`` where there is none, or one core anyway."""
    if not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2:
        return None
    found = getattr(ctypes.CDLL(None), "sched_getcpu", None)
    if found is not None:
        found.argtypes = []
    return found
