"""Calls of a source's own code: whatever the code does becomes a `SourceError`, and never ends the caller."""

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

# How long a cancelled call may take to close what it has opened.
_UNWIND_SECONDS = 0.1
# Error texts contain whole queries and URLs, and say what is wrong at the end.
_TEXT = 2000
# More values than this are converted in a thread, so that the event loop is not blocked.
_MANY = 30_000


class Calls:
    """Calls one source's code, each call in a task of its own, with the source's own threads."""

    def __init__(self, name: str, *, timeout_seconds: float, threads: int = AT_ONCE) -> None:
        self._timeout_seconds = timeout_seconds
        self._threads = DaemonThreads(f"bayplan-source-{name}", limit=threads)
        # Not the threads of the source: they may all hang in calls that this answer did not need.
        self._converting = DaemonThreads(f"bayplan-answer-{name}", limit=1)
        self._left: set[asyncio.Task[Fields | str]] = set()

    async def fields(self, fetch: Callable[[], Awaitable[Mapping[str, Any]]]) -> Fields:
        """The source's values, by field; raises `SourceError` for whatever else its code does.

        Raises ``CancelledError`` only if the calling task is cancelled.
        """
        if len(self._left) >= self._threads.limit:
            raise SourceError(f"not asked: earlier calls do not end, {len(self._left)} by now")
        context = copy_context()
        context.run(OWN.set, self._threads)
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._timeout_seconds
        # In a task of its own: if the code cancels its task, that must not be ours.
        task = asyncio.create_task(self._outcome(fetch), context=context)
        try:
            await asyncio.wait({task}, timeout=self._timeout_seconds)
            outcome = task.result() if task.done() else self._late()
        finally:
            await self._give_up(task)
        if isinstance(outcome, str):
            # The HTTP client has the same deadline but another text: with one text, the log does not repeat.
            raise SourceError(self._late() if clock() >= deadline else outcome)
        return outcome

    async def _outcome(self, fetch: Callable[[], Awaitable[Mapping[str, Any]]]) -> Fields | str:
        """The values, or an error text: not raised, since some exceptions in a task end the event loop."""
        try:
            values = await fetch()
            if not _many(values):
                return by_field(values)
            return await asyncio.get_running_loop().run_in_executor(self._converting, by_field, values)
        except BaseException as error:
            return self._told(error)

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
        # asyncio keeps only weak references to tasks: without this one, the task could be collected half-way.
        self._left.add(task)
        task.add_done_callback(self._left.discard)
        await asyncio.wait({task}, timeout=_UNWIND_SECONDS)


def _many(values: Mapping[str, Any]) -> bool:
    if len(values) > _MANY:
        return True
    try:
        inside = sum(map(len, values.values()))
    except TypeError:
        # A number has no length; other values beside it may have one.
        inside = sum(len(value) for value in values.values() if hasattr(value, "__len__"))
    return inside > _MANY
