"""HTTP connections with a deadline for headers and a cap on their number.

aiohttp closes idle connections; it has no clock for a caller that sends its headers byte by byte.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

_FIRST_BYTE_SECONDS = 60.0


class _Connection(web.RequestHandler):
    """One connection: cut when its headers take too long."""

    __slots__ = ("_busy", "_due", "_header_seconds")

    def __init__(self, *args: Any, header_seconds: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._header_seconds = header_seconds
        self._due: asyncio.TimerHandle | None = None
        self._busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._wind(max(_FIRST_BYTE_SECONDS, self._header_seconds))

    def data_received(self, data: bytes) -> None:
        if not self._busy:
            # From the first byte of the headers to the last: more bytes in between do not wind it again.
            self._busy = True
            self._wind(self._header_seconds)
        super().data_received(data)

    def headers_complete(self) -> None:
        """The request can be answered now; the body has a clock of its own."""
        self._wind(None)

    def answered(self) -> None:
        """The next byte starts a new request."""
        self._busy = False

    def connection_lost(self, exc: BaseException | None) -> None:
        self._wind(None)
        super().connection_lost(exc)

    def _wind(self, seconds: float | None) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None
        if seconds is not None:
            self._due = self._loop.call_later(seconds, self.force_close)


class _Refused(asyncio.Protocol):
    """A connection over the cap: closed at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


class HttpServer(web.Server):
    """Makes connections for a listening socket."""

    def __init__(
        self, handler: Handler, *, max_connections: int, header_seconds: float, keep_alive_seconds: float
    ) -> None:
        super().__init__(self._answer, request_factory=self._request)
        self._answer_request = handler
        self._max_connections = max_connections
        self._options: dict[str, Any] = {
            "header_seconds": header_seconds,
            "keepalive_timeout": keep_alive_seconds,
            "access_log": None,
            "lingering_time": 5.0,
        }

    def __call__(self) -> Any:
        if len(self.connections) >= self._max_connections:
            return _Refused()
        return _Connection(self, loop=asyncio.get_running_loop(), **self._options)

    def _request(self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
        protocol.headers_complete()
        return web.BaseRequest(message, payload, protocol, writer, task, asyncio.get_running_loop())

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._answer_request(request)
        finally:
            protocol = request.protocol
            if isinstance(protocol, _Connection):
                protocol.answered()
