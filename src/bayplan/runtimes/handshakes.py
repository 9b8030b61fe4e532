"""Callers that come over TLS: let in once their handshake is done, and so many at a time.

asyncio counts nobody before that, and a handshake that nobody goes on with takes 100 kB for as long as it may
last. So the one that began first is ended where too many are under way: an honest one takes milliseconds.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable

from bayplan.ops.logs import Sparingly
from bayplan.runtimes.limits import Limits

log = logging.getLogger(__name__)

# So many are let in before others have their turn.
_AT_ONCE = 128
# When there is no file left for one more, as asyncio does it.
_PAUSE_SECONDS = 1.0


class Handshakes:
    """Accepts from a listening socket."""

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
        """Let nobody in any more; before the socket is closed, and as often as anybody likes after that."""
        if self._listening.fileno() < 0:
            return
        self._loop.remove_reader(self._listening)
        if self._again is not None:
            self._again.cancel()

    def end(self) -> None:
        """Give up those that are under way."""
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
            # Why a handshake failed is told where it does; one that was not gone on with is nothing to tell.
            connection.close()
        finally:
            self._going.pop(asyncio.current_task(), None)  # type: ignore[arg-type]
