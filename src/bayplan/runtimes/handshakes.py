"""Accepts TLS connections, and limits the handshakes under way.

A connection counts for asyncio only after its handshake, and a stalled handshake holds 100 kB until its
timeout. So the oldest handshake is closed when too many are under way: an honest one takes milliseconds.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable

from bayplan.ops.logs import Sparingly
from bayplan.runtimes.limits import Limits

log = logging.getLogger(__name__)

# How many connections are accepted before the event loop goes on with other work.
_AT_ONCE = 128
# How long to wait when no file descriptor is left, as asyncio does.
_PAUSE_SECONDS = 1.0


class Handshakes:
    """Accepts TLS connections from a listening socket."""

    def __init__(
        self,
        make: Callable[[], asyncio.BaseProtocol],
        listening: socket.socket,
        context: ssl.SSLContext,
        limits: Limits,
    ) -> None:
        self._make = make
        self._listening = listening
        self._context = context
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._going: dict[asyncio.Task[None], None] = {}
        self._warnings = Sparingly()
        self._again: asyncio.TimerHandle | None = None
        self._accept_more()

    def close(self) -> None:
        """Stop accepting. Call it before the socket is closed; further calls do nothing."""
        if self._listening.fileno() < 0:
            return
        self._loop.remove_reader(self._listening)
        if self._again is not None:
            self._again.cancel()

    def end(self) -> None:
        """Cancel the handshakes under way."""
        for task in self._going:
            task.cancel()

    def _accept_more(self) -> None:
        self._again = None
        self._loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._warnings.warn(log, "accept", f"nobody can connect for a moment: {error}")
                self._loop.remove_reader(self._listening)
                self._again = self._loop.call_later(_PAUSE_SECONDS, self._accept_more)
                return
            connection.setblocking(False)
            self._going[self._loop.create_task(self._let_in(connection))] = None
            if len(self._going) > self._limits.max_connections:
                oldest = next(iter(self._going))
                del self._going[oldest]
                oldest.cancel()
                text = f"{self._limits.max_connections} callers do not go on with their TLS handshake"
                self._warnings.warn(log, "handshakes", f"{text}: the oldest are closed")

    async def _let_in(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._make,
                connection,
                ssl=self._context,
                ssl_handshake_timeout=self._limits.header_seconds,
            )
        except OSError:
            # asyncio logs why a handshake failed; a stalled one is nothing to report.
            connection.close()
        finally:
            self._going.pop(asyncio.current_task(), None)  # type: ignore[arg-type]
