"""The HTTP server of the ops port and the page: aiohttp, with deadlines and a limit on connections.

aiohttp closes idle connections. It has no timeout for a caller that sends its headers byte by byte or never
reads its answer, and it hangs up on a caller that closed its own half and waits for the answer.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from bayplan.ops.logs import Sparingly
from bayplan.runtimes.crowd import longest_waiting, too_many
from bayplan.runtimes.limits import Limits

log = logging.getLogger(__name__)

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

_NOT_HTTP = b'{"Error":"these bytes are not a valid HTTP/1.1 request"}'


class _Connection(web.RequestHandler):
    """One connection; closed if its headers take too long or its answer is not read."""

    __slots__ = (
        "_answering",
        "_busy",
        "_deadline",
        "_header_seconds",
        "_http",
        "_idle_since",
        "_said_all",
        "_write_seconds",
        "asked",
    )

    def __init__(
        self, http: "HttpServer", *, header_seconds: float, write_seconds: float, **kwargs: Any
    ) -> None:
        super().__init__(http, **kwargs)
        self._http = http
        self._header_seconds = header_seconds
        self._write_seconds = write_seconds
        self._deadline: asyncio.TimerHandle | None = None
        self._busy = False
        self._answering: Any = None
        self._said_all = False
        self._idle_since = self._loop.time()
        self.asked = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Checked here, not where the protocol is made: a burst makes many before the first is connected.
        if self._http.full():
            self.force_close()
            transport.close()
            return
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if not self._busy:
            # One deadline for all headers: more bytes do not extend it.
            self._busy = True
            self._set_deadline(self._header_seconds)
        super().data_received(data)

    def headers_complete(self, body: Any) -> None:
        """The headers are complete: clear their deadline; the body has one of its own."""
        self._answering = body
        self._set_deadline(None)

    def answered(self) -> None:
        """The request was answered: the next byte starts a new one."""
        self._busy = False
        self._answering = None
        self._idle_since, self.asked = self._loop.time(), True
        if self._said_all and not self._messages:
            self.close()

    @property
    def waits_since(self) -> float | None:
        """Since when the connection waits for its caller; ``None`` while it works on an answer."""
        return None if self._answering is not None else self._idle_since

    def eof_received(self) -> bool:  # type: ignore[override]
        """Return True to keep our half open, if the caller still waits for answers to whole requests."""
        self._said_all = True
        bodies = [body for _, body in self._messages]
        if self._answering is not None:
            bodies.append(self._answering)
        # TLS has no half-closed state: asyncio closes both halves whatever this returns.
        return self.ssl_context is None and bool(bodies) and all(body.is_eof() for body in bodies)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._set_deadline(None)
        super().connection_lost(exc)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send the answer; cut off a caller that does not read it."""
        due = self._loop.call_later(self._write_seconds, self.abort)
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            due.cancel()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Refuse bytes that are no HTTP; logged sparingly, since port scanners send nothing else."""
        if status != 400:
            return super().handle_error(request, status, exc, message)
        reason = " ".join(str(exc or message).split())[:200]
        self._http.warnings.warn(log, "not HTTP", f"{request.remote or 'somebody'} sent no HTTP: {reason}")
        response = web.Response(status=status, body=_NOT_HTTP, content_type="application/json")
        response.force_close()
        return response

    def abort(self) -> None:
        """Close the connection and drop what is not sent."""
        # `close` would wait until everything is sent, which never happens here.
        if self.transport is not None:
            self.transport.abort()

    def _set_deadline(self, seconds: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if seconds is not None:
            self._deadline = self._loop.call_later(seconds, self.force_close)


class HttpServer(web.Server):
    """Makes a connection for each accepted socket."""

    def __init__(self, handler: Handler, limits: Limits, *, setting: str = "") -> None:
        """``setting`` names the limit on connections, for the warning; ``""`` if it cannot be set."""
        super().__init__(self._answer, request_factory=self._request)
        self.warnings = Sparingly()
        self.limits = limits
        self._setting = setting
        self._answer_request = handler
        self._options: dict[str, Any] = {
            "header_seconds": limits.header_seconds,
            "write_seconds": limits.body_seconds,
            "keepalive_timeout": limits.keep_alive_seconds,
            "access_log": None,
            # The rest of a refused body is read for so long, so that its sender gets to read the answer.
            "lingering_time": min(5.0, limits.body_seconds),
            # A few bytes of gzip can expand to gigabytes.
            "auto_decompress": False,
        }

    def __call__(self) -> Any:
        return _Connection(self, loop=asyncio.get_running_loop(), **self._options)

    def full(self) -> bool:
        """Whether one more connection must be refused; closes the longest idle one to make room."""
        if len(self._connections) < self.limits.max_connections:
            return False
        gone = longest_waiting(each for each in self._connections if isinstance(each, _Connection))
        hint = f"raise {self._setting}" if self._setting else "find out who keeps so many, and close some"
        self.warnings.warn(log, "full", too_many(self.limits, closed=gone, hint=hint))
        if gone is None:
            return True
        gone.abort()
        # Not left to `connection_lost`: many connections may come before it is called.
        del self._connections[gone]
        return False

    def _request(self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
        protocol.headers_complete(payload)
        return web.BaseRequest(message, payload, protocol, writer, task, asyncio.get_running_loop())

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._answer_request(request)
        finally:
            protocol = request.protocol
            if isinstance(protocol, _Connection):
                protocol.answered()
