"""Tasks that run until somebody ends them. One that ends by itself says so, in the log and to health.

Without this it would be gone without a word: asyncio tells of an error when somebody asks the task for it,
and whoever started one that runs for ever asks when the server ends.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

log = logging.getLogger(__name__)


class WatchedTask:
    """One such task."""

    def __init__(
        self, work: Coroutine[Any, Any, None], what: str, *, vital: bool = False, may_end: bool = False
    ) -> None:
        """``what`` is to be said with "any more" when it has ended: ``the cluster is not followed``.

        Without a ``vital`` one the server is of no use: only a restart helps. One that ``may_end`` is done
        some time, which is no news; that it failed is.
        """
        self.problem = ""
        """What is not done any more, and why; ``""`` while it runs, and when it was ended."""
        self.vital = vital
        self._what = what
        self._may_end = may_end
        self._task = asyncio.create_task(work)
        self._task.add_done_callback(self._ended)

    def cancel(self) -> None:
        """Have it end, and do not wait."""
        self._task.cancel()

    async def end(self) -> None:
        """Have it end, and wait until it has."""
        await end_all([self])

    async def gone(self) -> None:
        """Wait until it has ended, however it did."""
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
    """End them all at once, and wait until they have."""
    for task in tasks:
        task.cancel()
    for task in tasks:
        await task.gone()


class WatchedTasks:
    """All that a server has under way."""

    def __init__(self) -> None:
        self._tasks: list[WatchedTask] = []

    def start(
        self, work: Coroutine[Any, Any, None], what: str, *, vital: bool = False, may_end: bool = False
    ) -> WatchedTask:
        """Begin one, as `WatchedTask` tells."""
        task = WatchedTask(work, what, vital=vital, may_end=may_end)
        self._tasks.append(task)
        return task

    @property
    def lost(self) -> str:
        """What is not done any more that only a restart cures; ``""`` while all is well."""
        return self._told(vital=True)

    @property
    def problem(self) -> str:
        """What else is not done any more."""
        return self._told(vital=False)

    def _told(self, *, vital: bool) -> str:
        return "; ".join(task.problem for task in self._tasks if task.problem and task.vital is vital)
