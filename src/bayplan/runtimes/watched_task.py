"""Background tasks that run until the server ends; one that ends by itself is reported to log and health.

asyncio reports a task's error only when the task is awaited, and a task that runs for ever is awaited only
when the server ends.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

log = logging.getLogger(__name__)


class WatchedTask:
    """One background task."""

    def __init__(
        self, work: Coroutine[Any, Any, None], what: str, *, vital: bool = False, may_end: bool = False
    ) -> None:
        """``what`` describes the loss, before "any more": ``the cluster is not followed``.

        ``vital``: without it the server is of no use, and only a restart helps. ``may_end``: a normal end is
        no problem; a failure is.
        """
        self.problem = ""
        """What is not done any more, and why; ``""`` while the task runs, or if it was cancelled."""
        self.vital = vital
        self._what = what
        self._may_end = may_end
        self._task = asyncio.create_task(work)
        self._task.add_done_callback(self._ended)

    def cancel(self) -> None:
        """Cancel the task, without waiting."""
        self._task.cancel()

    async def end(self) -> None:
        """Cancel the task, and wait until it has ended."""
        await end_all([self])

    async def gone(self) -> None:
        """Wait until the task has ended, in whatever way."""
        await asyncio.wait([self._task])

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is None and self._may_end:
            return
        self.problem = f"{self._what} any more: {error!r}"
        level = logging.CRITICAL if self.vital else logging.ERROR
        log.log(level, "%s", self.problem, exc_info=error)


async def end_all(tasks: list[WatchedTask]) -> None:
    """Cancel all tasks, then wait until they have ended."""
    for task in tasks:
        task.cancel()
    for task in tasks:
        await task.gone()


class WatchedTasks:
    """All background tasks of a server."""

    def __init__(self) -> None:
        self._tasks: list[WatchedTask] = []

    def start(
        self, work: Coroutine[Any, Any, None], what: str, *, vital: bool = False, may_end: bool = False
    ) -> WatchedTask:
        """Start a task; the arguments are those of `WatchedTask`."""
        task = WatchedTask(work, what, vital=vital, may_end=may_end)
        self._tasks.append(task)
        return task

    @property
    def lost(self) -> str:
        """The problems of vital tasks, which only a restart cures; ``""`` without any."""
        return self._told(vital=True)

    @property
    def problem(self) -> str:
        """The problems of other tasks."""
        return self._told(vital=False)

    def _told(self, *, vital: bool) -> str:
        return "; ".join(task.problem for task in self._tasks if task.problem and task.vital is vital)
