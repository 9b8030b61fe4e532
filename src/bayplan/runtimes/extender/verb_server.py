"""The HTTP server of the verbs: accepts connections, within limits, and closes them at shutdown."""

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
"""How many bytes of answers, over all connections, may wait for callers to read them."""

Handler = Callable[[Request], Awaitable[Response]]
AtOnce = Callable[[str, bytes, Line], Response | None]


class VerbServer:
    """Makes a `Connection` for each accepted socket, and keeps track of the open ones."""

    def __init__(self, handler: Handler, limits: Limits, *, at_once: AtOnce | None = None) -> None:
        """``at_once`` gets the path and body of a POST first; if it returns ``None``, ``handler`` answers."""
        self.handler = handler
        self.at_once = at_once
        self.limits = limits
        self.connections: set[Connection] = set()
        self.warnings = Sparingly()
        self.closing = False
        self._empty = asyncio.Event()
        self._empty.set()
        # Shared by all connections: each takes its bytes out before another one is read.
        self.scratch = memoryview(bytearray(READ_BYTES))
        self.spelling = Spelling()

    def __call__(self) -> Any:
        return Connection(self)

    def entered(self, connection: Connection) -> None:
        """Add an open connection."""
        self.connections.add(connection)
        self._empty.clear()

    def left(self, connection: Connection) -> None:
        """Remove a closed connection."""
        self.connections.discard(connection)
        if not self.connections:
            self._empty.set()

    def full(self) -> bool:
        """Whether one more connection must be refused; closes the longest idle one to make room."""
        if len(self.connections) < self.limits.max_connections:
            return False
        gone = longest_waiting(self.connections)
        self.warnings.warn(
            log, "full", too_many(self.limits, closed=gone, hint="raise extender.limits.maxConnections")
        )
        if gone is None:
            return True
        gone.abort()
        # Not left to `connection_lost`: many connections may come before it is called.
        self.left(gone)
        return False

    def bound_unsent(self) -> None:
        """Close the slowest readers if unread answers take more than `UNSENT_BYTES`."""
        slow = [each for each in self.connections if each.unsent and each.waits_since is not None]
        slow.sort(key=lambda each: each.waits_since or 0.0)
        total = sum(each.unsent for each in slow)
        # The last one was answered just now, and may be of any size.
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
        """Wait for answers under way, at most ``timeout`` seconds, then close everything."""
        if tasks := [each.task for each in self.connections if each.task is not None]:
            await asyncio.wait(tasks, timeout=timeout)
        for connection in list(self.connections):
            connection.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._empty.wait()
        for connection in list(self.connections):
            connection.abort()
