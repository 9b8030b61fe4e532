"""Asking a source's own code: whatever it does is its failure, and never the end of who asked."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextvars import copy_context
from typing import Any

from bayplan.authoring.raised import safe_text
from bayplan.client.daemon_threads import DaemonThreads
from bayplan.snapshot.bynode import Scalar, by_field
from bayplan.state.sources.http import SourceError
from bayplan.state.sources.threads import AT_ONCE, OWN

Fields = dict[str, dict[str, Scalar]]

# So long may one that is given up take to close what it has opened.
_UNWIND_SECONDS = 0.1
# Whole queries and addresses are in it: what is wrong with them stands at the end.
_TEXT = 2000
# More values than this are looked at in a thread: on the event loop everybody would wait for them.
_MANY = 30_000


class Calls:
    """The calls of one source's code, each in a task, and in threads where it wants some."""

    def __init__(self, name: str, *, timeout_seconds: float, threads: int = AT_ONCE) -> None:
        self._timeout_seconds = timeout_seconds
        self._threads = DaemonThreads(f"bayplan-source-{name}", limit=threads)
        # Not in threads of the source, which may all hang in calls that this answer did not need.
        self._turning = DaemonThreads(f"bayplan-answer-{name}", limit=1)
        self._left: set[asyncio.Task[Fields | str]] = set()

    async def fields(self, fetch: Callable[[], Awaitable[Mapping[str, Any]]]) -> Fields:
        """What it says, by field; `SourceError` for everything else that it may do.

        ``CancelledError`` comes out only where the task that asks is being cancelled.
        """
        if len(self._left) >= self._threads.limit:
            raise SourceError(f"not asked: earlier calls do not end, {len(self._left)} by now")
        context = copy_context()
        context.run(OWN.set, self._threads)
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._timeout_seconds
        # A task of its own: if it cancels the task that it runs in, that is not ours.
        task = asyncio.create_task(self._outcome(fetch), context=context)
        try:
            await asyncio.wait({task}, timeout=self._timeout_seconds)
            said = task.result() if task.done() else self._late()
        finally:
            await self._give_up(task)
        if isinstance(said, str):
            # HTTP has the same deadline and words of its own: one of the two, or the log repeats itself.
            raise SourceError(self._late() if clock() >= deadline else said)
        return said

    async def _outcome(self, fetch: Callable[[], Awaitable[Mapping[str, Any]]]) -> Fields | str:
        """What it says, or what is wrong; returned, since some that leave a task end the event loop."""
        try:
            values = await fetch()
            if not _many(values):
                return by_field(values)
            return await asyncio.get_running_loop().run_in_executor(self._turning, by_field, values)
        except BaseException as error:
            try:
                return self._told(error)
            except BaseException:
                return "what it raised cannot be printed"

    def _told(self, error: BaseException) -> str:
        if isinstance(error, TimeoutError):
            return self._late()
        text = safe_text(error, limit=_TEXT)
        if isinstance(error, SourceError | ValueError) and text:
            return text
        kind = type(error).__name__
        if isinstance(error, Exception):
            return f"{kind}: {text}"
        return f"it raised {kind}{': ' if text else ''}{text}"

    def _late(self) -> str:
        text = f"no answer in {self._timeout_seconds:g} s"
        if not self._threads.full:
            return text
        threads = "its thread hangs" if self._threads.limit == 1 else "all threads that it may have hang"
        return f"{text}; {threads}, and no other is started"

    async def _give_up(self, task: "asyncio.Task[Fields | str]") -> None:
        if task.done():
            return
        task.cancel()
        # Nobody else knows of it: without this it might be thrown away half-way.
        self._left.add(task)
        task.add_done_callback(self._left.discard)
        await asyncio.wait({task}, timeout=_UNWIND_SECONDS)


def _many(values: Mapping[str, Any]) -> bool:
    if len(values) > _MANY:
        return True
    try:
        inside = sum(map(len, values.values()))
    except TypeError:
        # A number has no length; beside it there may be what has.
        inside = sum(len(value) for value in values.values() if hasattr(value, "__len__"))
    return inside > _MANY
