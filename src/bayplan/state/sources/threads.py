"""Threads for blocking calls: each source has its own, so that one that hangs does not block the others.

``asyncio.to_thread`` has one pool for the whole program, and the program waits for it at exit. One source
with hanging calls would fill it: then no host name could be resolved, no file closed, and the program not
end.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from typing import Any, ParamSpec, TypeVar

from bayplan.client.daemon_threads import DaemonThreads

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

AT_ONCE = min(32, (os.cpu_count() or 1) + 4)
"""How many calls may run at once: as many as in Python's own pool."""

_GRACE_SECONDS = 1.0

OWN: ContextVar[DaemonThreads | None] = ContextVar("bayplan_source_threads", default=None)
"""The threads of the source whose code is running."""


class ThreadsByCaller(ThreadPoolExecutor):
    """The default executor of the event loop: uses the threads of the calling source, or else its own.

    An event loop accepts only a `ThreadPoolExecutor`; the threads of that base class are never started.
    """

    def __init__(self) -> None:
        super().__init__(max_workers=1)
        self._ours = DaemonThreads("bayplan-aside", limit=AT_ONCE)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Call ``fn`` in a thread of the caller's source."""
        return (OWN.get() or self._ours).submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls, and wait for none."""
        self._ours.shutdown(wait=wait, cancel_futures=cancel_futures)


async def aside(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call ``work`` in a thread of the source whose code is running, or in the loop's default executor."""
    return await asyncio.get_running_loop().run_in_executor(OWN.get(), partial(work, *args, **kwargs))


def run_apart(
    main: Coroutine[Any, Any, T], *, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> T:
    """Run a coroutine as `asyncio.run` does, with `ThreadsByCaller` as the loop's default executor.

    At the end it does not wait for tasks that go on although they were cancelled.
    """
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.get_loop().set_default_executor(ThreadsByCaller())
        return runner.run(_and_let_go(main))


async def _and_let_go(main: Coroutine[Any, Any, T]) -> T:
    try:
        return await main
    finally:
        await _let_go({task for task in asyncio.all_tasks() if task is not asyncio.current_task()})


async def _let_go(others: "set[asyncio.Task[Any]]") -> None:
    """Cancel the tasks; the loop's end, which waits for every task that it knows, forgets those that stay."""
    for task in others:
        task.cancel()
    if others:
        _, stay = await asyncio.wait(others, timeout=_GRACE_SECONDS)
        for task in stay:
            log.warning("a call of a source goes on although it was cancelled; the program ends without it")
            asyncio._unregister_task(task)
