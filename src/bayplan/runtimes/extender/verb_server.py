"""The port of the verbs: who answers there, and which connections are open."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from bayplan.ops.logs import Sparingly
from bayplan.runtimes.crowd import longest_waiting, too_many
from bayplan.runtimes.extender.connection import READ_BYTES, Connection
from bayplan.runtimes.extender.exchange import Line, Request, Response, Spelling
from bayplan.runtimes.limits import Limits

log = logging.getLogger(__name__)

UNSENT_BYTES = 256 * 1024 * 1024
"""How much of all answers may wait for callers to take it."""

Handler = Callable[[Request], Awaitable[Response]]
AtOnce = Callable[[str, bytes, Line], Response | None]


class VerbServer:
    """Makes connections for a listening socket, and knows those that are open."""

    def __init__(self, handler: Handler, limits: Limits, *, at_once: AtOnce | None = None) -> None:
        """``at_once`` is asked first, with path and body of a POST; ``None`` where it has no answer."""
        self.handler = handler
        self.at_once = at_once
        self.limits = limits
        self.connections: set[Connection] = set()
        self.warnings = Sparingly()
        self.closing = False
        self._empty = asyncio.Event()
        self._empty.set()
        # One for all: bytes are taken out of it before anybody else can be read.
        self.scratch = memoryview(bytearray(READ_BYTES))
        self.spelling = Spelling()

    def __call__(self) -> Any:
        return Connection(self)

    def entered(self, connection: Connection) -> None:
        """It is one of ours now."""
        self.connections.add(connection)
        self._empty.clear()

    def left(self, connection: Connection) -> None:
        """It is gone."""
        self.connections.discard(connection)
        if not self.connections:
            self._empty.set()

    def full(self) -> bool:
        """Whether one more connection is one too many: there is none that could go for it."""
        if len(self.connections) < self.limits.max_connections:
            return False
        gone = longest_waiting(self.connections)
        self.warnings.warn(
            log, "full", too_many(self.limits, closed=gone, hint="raise extender.limits.maxConnections")
        )
        if gone is None:
            return True
        gone.abort()
        # Now: many can come before it is told that it was closed.
        self.left(gone)
        return False

    def bound_unsent(self) -> None:
        """Cut off those that do not read for longest, where answers that nobody takes are too much memory."""
        slow = [each for each in self.connections if each.unsent and each.waits_since is not None]
        slow.sort(key=lambda each: each.waits_since or 0.0)
        total = sum(each.unsent for each in slow)
        # The last one may be as large as it is: it was answered just now.
        for each in slow[:-1]:
            if total <= UNSENT_BYTES:
                break
            total -= each.unsent
            each.abort()
            text = f"{len(slow)} callers do not read their answers: the slowest are cut off"
            self.warnings.warn(log, "unsent", text)

    def pre_shutdown(self) -> None:
        """Close idle connections, and the others with their next answer."""
        self.closing = True
        for connection in list(self.connections):
            connection.close_idle()

    async def shutdown(self, timeout: float) -> None:  # noqa: ASYNC109
        """Wait for answers under way for so long, then close everything."""
        if tasks := [each.task for each in self.connections if each.task is not None]:
            await asyncio.wait(tasks, timeout=timeout)
        for connection in list(self.connections):
            connection.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._empty.wait()
        for connection in list(self.connections):
            connection.abort()
