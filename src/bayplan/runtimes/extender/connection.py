"""One HTTP/1.1 connection of a caller: deadlines, pipelining, and bodies read into one buffer.

httptools parses heads and chunks. The rest of a body of known length goes from the socket straight into its
final buffer. A request that arrives whole costs no timer and no wait.
"""

import asyncio
import contextlib
import logging
from collections import deque
from typing import TYPE_CHECKING, cast

import httptools

from bayplan.runtimes.extender.exchange import Request, Response
from bayplan.runtimes.extender.heads import LONGEST, Heads

if TYPE_CHECKING:
    from bayplan.runtimes.extender.verb_server import VerbServer

log = logging.getLogger(__name__)

_NOT_HTTP = Response(b'{"Error":"these bytes are not a valid HTTP/1.1 request"}', 400, close=True)
_BROKEN = Response(b'{"Error":"internal error"}', 500, close=True)
_NO_PARSER = httptools.HttpRequestParser(object())
_HEAD_BYTES = 64 * 1024
_LONG_HEAD = f"the head is longer than {_HEAD_BYTES} bytes"
_LONG_TRAILER = f"more than {_HEAD_BYTES} bytes of the body are neither data nor its end"
READ_BYTES = 256 * 1024
# A larger answer is written after its head, not copied into one buffer with it.
_JOINED_BYTES = 64 * 1024
# Pipelining: reading pauses with more requests queued than this, and before a larger body behind another one.
_QUEUED = 16
_QUEUED_BYTES = 64 * 1024
# Small requests arrive in a few pieces right after one another; later ones get a timer of their own.
_LATE_SECONDS = 0.05
# The rest of a refused body is read for so long, so that its sender gets to read the answer.
_LINGER_SECONDS = 5.0


class Connection(asyncio.BufferedProtocol):
    """One connection; answers its requests one by one, in order."""

    def __init__(self, server: "VerbServer") -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._parser = httptools.HttpRequestParser(self)
        self._heads = Heads()
        self._url = b""
        self._headers: dict[str, str] = {}
        self._head_bytes = 0
        self._unparsed = 0
        self._in_head = False
        self._arriving: Request | None = None
        self._room: memoryview | None = None
        self._queue: deque[Request] = deque()
        self._task: asyncio.Task[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._late: asyncio.TimerHandle | None = None
        self._idle_since = self._loop.time()
        self.asked = False
        """Whether a request was answered on this connection."""
        self._said_all = False
        self._choked = False
        self._garbage = False
        self._ended = False

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection, if the server is not full."""
        self._transport = cast("asyncio.Transport", transport)
        # Here and not where the protocol is made: a burst makes many before the first is connected.
        if self._server.full():
            transport.close()
            return
        # `pause_writing` is called as soon as the caller does not read at once.
        # Not 0: over TLS, an empty buffer would already count as full.
        self._transport.set_write_buffer_limits(high=1, low=0)
        self._server.entered(self)
        self._watch_idle()

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Where the next bytes go; for a body that is thrown away, no further than its end."""
        if self._room is not None:
            return self._room
        request, scratch = self._arriving, self._server.scratch
        return scratch if request is None or request.length is None else scratch[: request.left]

    def buffer_updated(self, nbytes: int) -> None:
        """Take the bytes that asyncio put into the buffer."""
        if self._ended:
            return
        request = self._arriving
        if request is not None and request.length is not None:
            # Without a buffer the body is over the limit, and thrown away.
            if self._room is not None:
                self._room = self._room[nbytes:]
            request.filled(nbytes)
            if request.complete:
                self._room = self._arriving = None
                if self._task is None:
                    self._begin_next()
        elif not self._take_known_head(nbytes):
            self._feed(self._server.scratch[:nbytes])

    def eof_received(self) -> bool:
        """Return True to keep our half open, if the caller still waits for answers to whole requests."""
        self._said_all = True
        if self._arriving is not None:
            self._arriving.broke_off("the caller closed the connection")
            self._begin_next()
        # TLS has no half-closed state: asyncio closes both halves whatever this returns.
        plain = self._transport.get_extra_info("sslcontext") is None
        whole = self._arriving is None and (self._task is not None or bool(self._queue))
        return plain and whole and not self._ended

    def connection_lost(self, _exc: BaseException | None) -> None:
        """Clean up; an answer under way is finished and dropped."""
        if self._arriving is not None:
            self._arriving.broke_off("the connection was lost")
            self._begin_next(late=True)
        self._ended = True
        self._set_deadline(None)
        self._cancel_late()
        if self._idle is not None:
            self._idle.cancel()
        self._queue.clear()
        # Parser and connection refer to each other: without this, both would wait for the garbage collector,
        # with a body that may be large.
        self._arriving = self._room = None
        self._parser = _NO_PARSER
        self._server.left(self)

    def pause_writing(self) -> None:
        """The caller does not read its answer: cut it off if that lasts."""
        self._choked = True
        self._set_deadline(self._server.limits.body_seconds, abort=True)

    def resume_writing(self) -> None:
        """The caller read everything: go on."""
        self._choked = False
        self._set_deadline(self._server.limits.header_seconds if self._in_head else None)
        self._begin_next()

    # Called by the parser.

    def on_message_begin(self) -> None:
        """The first byte of a request arrived."""
        self._in_head = True
        self._url, self._headers, self._head_bytes, self._unparsed = b"", {}, 0, 0

    def on_url(self, url: bytes) -> None:
        """A part of the request's target arrived."""
        self._url += url
        self._measure(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header arrived, or a field of a trailer, which nobody asks for."""
        self._measure(len(name) + len(value))
        if self._in_head:
            self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """The head is complete: queue the request."""
        self._in_head = False
        parser = self._parser
        request = Request(
            self,
            method=parser.get_method().decode("latin-1"),
            path=_path_of(self._url),
            headers=self._headers,
            limit=self._server.limits.max_body_bytes,
            keep_alive=parser.should_keep_alive() and parser.get_http_version() == "1.1",
        )
        self._arriving = request
        self._queue.append(request)

    def on_body(self, data: bytes) -> None:
        """A part of the body arrived, with the head or in chunks."""
        self._unparsed = 0
        if self._arriving is not None:
            self._arriving.take(data)

    def on_message_complete(self) -> None:
        """The parser has read its part of the request."""
        request = self._arriving
        if request is not None and request.length is None:
            request.ended()
        if request is not None and request.complete:
            self._arriving = None

    # Called by requests and by the server.

    def go_on(self, request: Request) -> None:
        """Read the request's body, which was held back until now."""
        if request is self._arriving:
            if "100-continue" in request.headers.get("expect", "").lower():
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._room = request.room()
            self._transport.resume_reading()

    def certificate(self) -> dict[str, object] | None:
        """The caller's verified client certificate; ``None`` without one."""
        found = self._transport.get_extra_info("peercert")
        return cast("dict[str, object] | None", found)

    def close_idle(self) -> None:
        """Close the connection now, or as soon as the answer under way is sent."""
        if self._task is None and not self._queue:
            self._transport.close()
        else:
            self._begin_next(late=True)

    def close(self) -> None:
        """Close the connection once everything is sent."""
        self._transport.close()

    def abort(self) -> None:
        """Close the connection and drop what is not sent."""
        self._transport.abort()

    @property
    def unsent(self) -> int:
        """How many bytes of answers the caller has not read yet."""
        return self._transport.get_write_buffer_size()

    @property
    def waits_since(self) -> float | None:
        """Since when the connection waits for its caller; ``None`` while it works on an answer."""
        return None if self._task is not None and self._arriving is None else self._idle_since

    @property
    def task(self) -> "asyncio.Task[None] | None":
        """The task that works on an answer, if any."""
        return self._task

    def _take_known_head(self, count: int) -> bool:
        """Take the bytes without the parser, if they begin with a head that was parsed before."""
        if self._arriving is not None or self._in_head or self._queue or self._garbage or self._choked:
            return False
        scratch = self._server.scratch
        found = self._heads.find(cast("bytearray", scratch.obj), count)
        if found is None:
            return False
        head, length, start = found
        if count - start > length:
            # More than one request: only the parser knows where the next one begins.
            return False
        body = bytes(scratch[start:count])
        fits = len(body) == length <= self._server.limits.max_body_bytes
        tried = fits and self._task is None and not self._said_all
        if tried:
            response = self._at_once(head.path, body)
            if response is not None:
                self._answered(response, keep=True)
                return True
        request = Request(
            self,
            method=head.method,
            path=head.path,
            headers={**head.headers, "content-length": str(length)},
            limit=self._server.limits.max_body_bytes,
            keep_alive=True,
        )
        request.tried = tried
        self._queue.append(request)
        request.take(body)
        if not request.complete:
            self._arriving = request
            self._hold_back(request)
        if self._task is None:
            self._begin_next()
        return True

    def _measure(self, count: int) -> None:
        self._head_bytes += count
        if self._head_bytes > _HEAD_BYTES:
            raise ValueError(_LONG_HEAD if self._in_head else _LONG_TRAILER)

    def _feed(self, data: memoryview) -> None:
        between = self._arriving is None and not self._in_head and not self._queue
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            # The request offers to upgrade to another protocol, so the parser does not read its body. Answer
            # it as any other request, and read nothing after it.
            (self._arriving or self._queue[-1]).keep_alive = False
            if self._arriving is not None:
                self._arriving.take(bytes(data[offer.args[0] :])[: self._arriving.length])
                self.on_message_complete()
        except httptools.HttpParserError as error:
            # Of an error of `_measure` the parser says only that it was ours.
            self._not_http(error.__context__ or error)
            return
        if not self._in_bounds(len(data)):
            return
        if between and len(self._queue) == 1:
            self._heads.remember(bytes(data[:LONGEST]), self._queue[0])
        if self._arriving is not None:
            if self._arriving.length is not None:
                # The rest of the body bypasses the parser, so the next request needs a new parser.
                self._parser = httptools.HttpRequestParser(self)
            self._hold_back(self._arriving)
        elif len(self._queue) > _QUEUED:
            self._transport.pause_reading()
        if self._task is None:
            self._begin_next()

    def _in_bounds(self, count: int) -> bool:
        """Check the length of an incomplete head or trailer, and start the deadline of a head."""
        # The parser buffers an incomplete header, in a head or after the last chunk, which may never end.
        self._unparsed += count
        if (self._in_head or self._arriving is not None) and self._unparsed > _HEAD_BYTES + READ_BYTES:
            self._not_http(_LONG_HEAD if self._in_head else _LONG_TRAILER)
            return False
        if not self._in_head:
            if self._deadline is not None and not self._choked:
                self._set_deadline(None)
            return True
        # One deadline for the whole head: more bytes do not extend it.
        if self._deadline is None:
            self._set_deadline(self._server.limits.header_seconds)
        return True

    def _hold_back(self, request: Request) -> None:
        """Decide whether to read the rest of a body now; a large body waits until it is wanted."""
        self._idle_since = self._loop.time()
        waits = request.large or "expect" in request.headers
        if self._task is not None or self._queue[0] is not request:
            waits = waits or (request.length or 0) > _QUEUED_BYTES or len(self._queue) > _QUEUED
        if request.wanted or not waits:
            self._room = request.room()
        else:
            self._transport.pause_reading()

    def _begin_next(self, *, late: bool = False) -> None:
        """Answer queued requests; an incomplete one gets `_LATE_SECONDS` more, unless it is ``late``."""
        while self._queue and self._task is None and not self._choked and not self._ended:
            request = self._queue[0]
            if not (request.complete or late or self._said_all) and self._room is not None:
                if self._late is None:
                    self._late = self._loop.call_later(_LATE_SECONDS, self._begin_late)
                return
            self._cancel_late()
            late = False
            self._queue.popleft()
            if not (self._queue or self._arriving or self._garbage) and request.keep_alive:
                self._transport.resume_reading()
            whole = request.whole if request.method == "POST" and not request.tried else None
            response = None if whole is None else self._at_once(request.path, whole)
            if response is None:
                self._task = self._loop.create_task(self._answer(request))
                return
            self._answered(response, keep=request.keep_alive)
        if self._garbage and self._task is None and not (self._queue or self._choked or self._ended):
            # Only now: the requests before the garbage were valid.
            self._send(_NOT_HTTP, keep=False)
            self._hang_up(linger=True)

    def _begin_late(self) -> None:
        """The rest of a body is slow: let the handler wait for it, with a timeout."""
        self._late = None
        self._begin_next(late=True)

    def _cancel_late(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _at_once(self, path: str, body: bytes) -> Response | None:
        if self._server.at_once is None:
            return None
        try:
            return self._server.at_once(path, body, self)
        except Exception:
            _tell("a request was not answered at once")
            return None

    async def _answer(self, request: Request) -> None:
        try:
            response = await self._server.handler(request)
        except Exception:
            response = _BROKEN
            _tell("a request was not answered")
        finally:
            self._task = None
        whole = request.complete
        keep = whole and request.keep_alive
        self._answered(response, keep=keep, whole=whole, head_only=request.method == "HEAD")
        self._begin_next()

    def _answered(
        self, response: Response, *, keep: bool, whole: bool = True, head_only: bool = False
    ) -> None:
        """Send the response; keep the connection if both sides want that."""
        if self._ended:
            return
        keep = keep and not (response.close or self._server.closing or (self._said_all and not self._queue))
        self._send(response, keep=keep, head_only=head_only)
        self._idle_since, self.asked = self._loop.time(), True
        if not keep:
            self._hang_up(linger=not whole)
        if self._choked:
            self._server.bound_unsent()

    def _send(self, response: Response, *, keep: bool, head_only: bool = False) -> None:
        body = response.body
        head = self._server.spelling.head(response, keep=keep)
        if head_only:
            self._transport.write(head)
        elif len(body) <= _JOINED_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)

    def _hang_up(self, *, linger: bool) -> None:
        """Stop reading requests and close; with ``linger``, a caller that still sends can read its answer."""
        self._ended = True
        self._queue.clear()
        transport = self._transport
        if not linger or self._said_all:
            transport.close()
            return
        self._room = None
        if transport.can_write_eof():
            transport.write_eof()
        transport.resume_reading()
        self._set_deadline(min(_LINGER_SECONDS, self._server.limits.body_seconds), abort=True)

    def _not_http(self, error: object) -> None:
        """Refuse bytes that are no HTTP; logged sparingly, since port scanners send nothing else."""
        who = (self._transport.get_extra_info("peername") or ("somebody",))[0]
        reason = " ".join(str(error).split())[:200]
        self._server.warnings.warn(log, "not HTTP", f"{who} sent no HTTP: {reason}")
        self._transport.pause_reading()
        self._in_head = False
        self._set_deadline(None)
        if self._arriving is not None:
            # The head was valid: answer the request, and read nothing after it.
            self._arriving.keep_alive = False
            self._arriving.broke_off(reason)
            self._arriving = None
        else:
            self._garbage = True
        self._begin_next()

    def _set_deadline(self, seconds: float | None, *, abort: bool = False) -> None:
        """Set or clear the connection's one deadline: for a head, an answer or a body thrown away."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if seconds is not None:
            end = self._transport.abort if abort else self._transport.close
            self._deadline = self._loop.call_later(seconds, end)

    def _watch_idle(self) -> None:
        """Close the connection if it was idle for too long, else check again later."""
        busy = self._task is not None or self._arriving is not None or self._in_head
        left = self._idle_since + self._server.limits.keep_alive_seconds - self._loop.time()
        if busy:
            left = self._server.limits.keep_alive_seconds
        if left <= 0:
            self._transport.close()
        else:
            self._idle = self._loop.call_later(max(left, 0.01), self._watch_idle)


def _path_of(target: bytes) -> str:
    """The path of a request's target; a proxy may send the full URL, which a server must accept."""
    path = target.partition(b"?")[0]
    if not path.startswith(b"/") and b"://" in path:
        path = b"/" + path.partition(b"://")[2].partition(b"/")[2]
    return path.decode("latin-1")


def _tell(what: str) -> None:
    # The log itself may be what failed: a policy may have a handler of its own in it.
    with contextlib.suppress(Exception):
        log.exception("%s: this is a bug in Bayplan", what)
