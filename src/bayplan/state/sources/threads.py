"""Whose threads a call takes that would hold up the event loop: every source has threads of its own.

``asyncio.to_thread`` knows one pool for the whole program, and waits for it at the end. One source whose
calls hang would fill it: no name could be looked up any more, no file be closed, and there would be no end.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from typing import Any, ParamSpec, TypeVar

from bayplan.client.daemon_threads import DaemonThreads

P = ParamSpec("P")
T = TypeVar("T")

AT_ONCE = min(32, (os.cpu_count() or 1) + 4)
"""How many calls may be under way at once: as many as in Python's own pool."""

OWN: ContextVar[DaemonThreads | None] = ContextVar("bayplan_source_threads", default=None)
"""Those of the source whose code is running."""


class ThreadsByCaller(ThreadPoolExecutor):
    """What ``asyncio.to_thread`` goes to: the threads of the source that calls it, or else ours.

    It is of this kind because an event loop takes no other; the threads of its own are never started.
    """

    def __init__(self) -> None:
        super().__init__(max_workers=1)
        self._ours = DaemonThreads("bayplan-aside", limit=AT_ONCE)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Call it in a thread of whoever asks for it."""
        return (OWN.get() or self._ours).submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls, and wait for none."""
        self._ours.shutdown(wait=wait, cancel_futures=cancel_futures)


async def aside(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call it in a thread of the source whose code is running, whatever pool the event loop has."""
    return await asyncio.get_running_loop().run_in_executor(OWN.get(), partial(work, *args, **kwargs))


def run_apart(
    main: Coroutine[Any, Any, T], *, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> T:
    """Run it as `asyncio.run` does, with threads that no source can take from others, nor hold up the end."""
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.get_loop().set_default_executor(ThreadsByCaller())
        return runner.run(main)
