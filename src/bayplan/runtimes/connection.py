"""HTTP connections of people and their tools, with deadlines and a cap on their number.

aiohttp closes idle connections. It has no clock for a caller that sends its headers byte by byte or
never reads its answer, and it hangs up on one that closed its own half and waits for the answer.
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
    """One connection: cut when its headers take too long, or nobody reads the answer."""

    __slots__ = (
        "_answering",
        "_busy",
        "_due",
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
        self._due: asyncio.TimerHandle | None = None
        self._busy = False
        self._answering: Any = None
        self._said_all = False
        self._idle_since = self._loop.time()
        self.asked = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Here and not where the protocol is made: a burst makes many before the first is connected.
        if self._http.full():
            self.force_close()
            transport.close()
            return
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if not self._busy:
            # From the first byte of the headers to the last: more bytes in between do not wind it again.
            self._busy = True
            self._wind(self._header_seconds)
        super().data_received(data)

    def headers_complete(self, body: Any) -> None:
        """The request can be answered now; the body has a clock of its own."""
        self._answering = body
        self._wind(None)

    def answered(self) -> None:
        """The next byte starts a new request."""
        self._busy = False
        self._answering = None
        self._idle_since, self.asked = self._loop.time(), True
        if self._said_all and not self._messages:
            self.close()

    @property
    def waits_since(self) -> float | None:
        """Since when the caller has to send or to read something; ``None`` while an answer is made."""
        return None if self._answering is not None else self._idle_since

    def eof_received(self) -> bool:  # type: ignore[override]
        """True keeps our half open, for a caller that has sent whole requests and waits for answers."""
        self._said_all = True
        bodies = [body for _, body in self._messages]
        if self._answering is not None:
            bodies.append(self._answering)
        # TLS has no half: asyncio closes both, whatever is said here.
        return self.ssl_context is None and bool(bodies) and all(body.is_eof() for body in bodies)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._wind(None)
        super().connection_lost(exc)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send the answer; a caller that does not take it is cut off."""
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
        """Bytes that are no HTTP are said once in a while: a port scanner sends nothing else."""
        if status != 400:
            return super().handle_error(request, status, exc, message)
        reason = " ".join(str(exc or message).split())[:200]
        self._http.warnings.warn(log, "not HTTP", f"{request.remote or 'somebody'} sent no HTTP: {reason}")
        response = web.Response(status=status, body=_NOT_HTTP, content_type="application/json")
        response.force_close()
        return response

    def abort(self) -> None:
        """Close it without another word."""
        # Closing would wait until what is left was sent, which is what does not happen here.
        if self.transport is not None:
            self.transport.abort()

    def _wind(self, seconds: float | None) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None
        if seconds is not None:
            self._due = self._loop.call_later(seconds, self.force_close)


class HttpServer(web.Server):
    """Makes connections for a listening socket."""

    def __init__(self, handler: Handler, limits: Limits, *, setting: str = "") -> None:
        """``setting`` is what to raise where too many connect; ``""`` where nobody can set their number."""
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
            # What is left of a body that was refused is read for so long, so that its sender sees why.
            "lingering_time": min(5.0, limits.body_seconds),
            # kube-scheduler sends plain JSON; a few bytes of gzip can be gigabytes.
            "auto_decompress": False,
        }

    def __call__(self) -> Any:
        return _Connection(self, loop=asyncio.get_running_loop(), **self._options)

    def full(self) -> bool:
        """Whether one more connection is one too many: there is none that could go for it."""
        if len(self._connections) < self.limits.max_connections:
            return False
        gone = longest_waiting(each for each in self._connections if isinstance(each, _Connection))
        hint = f"raise {self._setting}" if self._setting else "find out who keeps so many, and close some"
        self.warnings.warn(log, "full", too_many(self.limits, closed=gone, hint=hint))
        if gone is None:
            return True
        gone.abort()
        # Now: many can come before it is told that it was closed.
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
