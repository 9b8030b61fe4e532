"""The connection pool of writes to the API server: lines are opened when needed, and kept open."""

import asyncio
import socket
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from bayplan.client.daemon_threads import DaemonThreads
from bayplan.client.line import Line, Place, open_line

AT_ONCE = 48
_OPEN_SECONDS = 30.0
_OPENED_AT_ONCE = 16


class Lines:
    """A pool of lines with a limit; the line used last is used first."""

    def __init__(self, server: str, *, server_name: str | None = None, limit: int = AT_ONCE) -> None:
        """``server`` is the URL of the API server, ``server_name`` the name in its certificate."""
        url = urlsplit(server)
        host = url.hostname or ""
        port = url.port or (443 if url.scheme == "https" else 80)
        self._place = Place(host, port, server_name or host)
        self.authority = url.netloc.rpartition("@")[2]
        """The value of the ``Host`` header."""
        self.prefix = url.path
        """The path of the server's URL, which precedes every request's path."""
        self._idle: list[Line] = []
        self._free = limit
        self._queue: deque[asyncio.Future[None]] = deque()
        self._closed = False
        # Own threads: hanging calls in the event loop's default pool must not stop connecting.
        self._threads = DaemonThreads("bayplan-connect", limit=_OPENED_AT_ONCE)

    @asynccontextmanager
    async def line(
        self, tls: ssl.SSLContext | None, *, timeout_seconds: float, urgent: bool = False
    ) -> AsyncIterator[Line]:
        """A line for one request; raises `OSError` or `TimeoutError` if there is none in time.

        An ``urgent`` request does not wait: it gets a line beyond the limit.
        """
        deadline = time.monotonic() + timeout_seconds
        if self._free > 0 or urgent:
            self._free -= 1
        else:
            async with asyncio.timeout(timeout_seconds):
                await self._turn()
        line: Line | None = None
        try:
            # After waiting for a turn, less time is left to open a line.
            line = self._pick(tls) or await self._open(tls, deadline - time.monotonic())
            yield line
        finally:
            if line is not None and not line.closed and not self._closed:
                self._idle.append(line)
            elif line is not None:
                line.close()
            self._next()

    def close(self) -> None:
        """Close the idle lines; lines in use are closed after their request."""
        self._closed = True
        for line in self._idle:
            line.close()
        self._idle.clear()

    async def _turn(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # The turn came in the same moment as the cancellation: pass it on.
                self._next()
            raise

    def _next(self) -> None:
        while self._queue and self._free >= 0:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _pick(self, tls: ssl.SSLContext | None) -> Line | None:
        """An idle line that is open and has the current credentials."""
        while self._idle:
            line = self._idle.pop()
            if not line.closed and line.tls is tls:
                return line
            line.close()
        return None

    async def _open(self, tls: ssl.SSLContext | None, timeout_seconds: float) -> Line:
        if timeout_seconds <= 0:
            raise TimeoutError
        seconds = min(timeout_seconds, _OPEN_SECONDS)
        opening = asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: open_line(self._place, tls, timeout_seconds=seconds)
        )
        try:
            async with asyncio.timeout(seconds):
                return Line(await asyncio.shield(opening), tls=tls)
        except (TimeoutError, asyncio.CancelledError):
            # The thread goes on for a moment: what it brings is of no use any more.
            opening.add_done_callback(_close_late)
            raise


def _close_late(opening: "asyncio.Future[socket.socket]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
