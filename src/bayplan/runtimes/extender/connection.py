"""Connections of kube-scheduler: HTTP/1.1 with deadlines, and a body that is read into one buffer.

httptools reads heads and chunks. The rest of a body whose length is known goes from the socket straight to
where it stays. A request that has come as a whole costs no timer and no wait.
"""

import asyncio
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
READ_BYTES = 256 * 1024
# A large answer is not copied to stand behind its head.
_JOINED_BYTES = 64 * 1024
# Who sends many requests before it reads an answer waits from here on, and before a body of more than that.
_QUEUED = 16
_QUEUED_BYTES = 64 * 1024
# Small requests come in a few pieces, right after one another; who takes longer has a clock of its own.
_LATE_SECONDS = 0.05
# What is left of a body that was refused is read for so long, so that its sender sees why.
_LINGER_SECONDS = 5.0


class Connection(asyncio.BufferedProtocol):
    """One connection; requests are answered one by one, in their order."""

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
        self._due: asyncio.TimerHandle | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._late: asyncio.TimerHandle | None = None
        self._idle_since = self._loop.time()
        self.asked = False
        """Whether a request was answered."""
        self._said_all = False
        self._choked = False
        self._garbage = False
        self._ended = False

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let it in, where there is room."""
        self._transport = cast("asyncio.Transport", transport)
        # Here and not where the protocol is made: a burst makes many before the first is connected.
        if self._server.full():
            transport.close()
            return
        # Whatever the caller does not take at once counts as not taken.
        # Not 0: over TLS, nothing at all would be too much.
        self._transport.set_write_buffer_limits(high=1, low=0)
        self._server.entered(self)
        self._watch_idle()

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Where the next bytes go; those that are thrown away end where their body does."""
        if self._room is not None:
            return self._room
        request, scratch = self._arriving, self._server.scratch
        return scratch if request is None or request.length is None else scratch[: request.left]

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes came."""
        if self._ended:
            return
        request = self._arriving
        if request is not None and request.length is not None:
            # Into its room; without one it is over the limit, and thrown away.
            if self._room is not None:
                self._room = self._room[nbytes:]
            request.filled(nbytes)
            if request.complete:
                self._room = self._arriving = None
                if self._task is None:
                    self._begin_next()
        elif not self._known(nbytes):
            self._feed(self._server.scratch[:nbytes])

    def eof_received(self) -> bool:
        """True keeps our half open, for a caller that has sent whole requests and waits for answers."""
        self._said_all = True
        if self._arriving is not None:
            self._arriving.broke_off("the caller closed the connection")
            self._begin_next()
        # TLS has no half: asyncio closes both, whatever is said here.
        plain = self._transport.get_extra_info("sslcontext") is None
        whole = self._arriving is None and (self._task is not None or bool(self._queue))
        return plain and whole and not self._ended

    def connection_lost(self, _exc: BaseException | None) -> None:
        """Let it go; whoever is at work on an answer finishes it for nobody."""
        if self._arriving is not None:
            self._arriving.broke_off("the connection was lost")
            self._begin_next(late=True)
        self._ended = True
        self._wind(None)
        self._not_late()
        if self._idle is not None:
            self._idle.cancel()
        self._queue.clear()
        # The parser knows us and we know it, and both would wait for the garbage collector, with a body that
        # may be large.
        self._arriving = self._room = None
        self._parser = _NO_PARSER
        self._server.left(self)

    def pause_writing(self) -> None:
        """The caller does not take its answer; it is cut off when that lasts."""
        self._choked = True
        self._wind(self._server.limits.body_seconds, abort=True)

    def resume_writing(self) -> None:
        """It took everything."""
        self._choked = False
        self._wind(self._server.limits.header_seconds if self._in_head else None)
        self._begin_next()

    # What the parser calls.

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        self._in_head = True
        self._url, self._headers, self._head_bytes, self._unparsed = b"", {}, 0, 0

    def on_url(self, url: bytes) -> None:
        """A part of the target."""
        self._url += url
        self._measure(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        self._measure(len(name) + len(value))
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """The request can be answered from here on."""
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
        """A part of the body that came with the head, or in chunks."""
        if self._arriving is not None:
            self._arriving.take(data)

    def on_message_complete(self) -> None:
        """The request is whole, as far as the parser reads it."""
        request = self._arriving
        if request is not None and request.length is None:
            request.ended()
        if request is not None and request.complete:
            self._arriving = None

    # What a request asks of its connection.

    def go_on(self, request: Request) -> None:
        """Read its body, which was held back until now."""
        if request is self._arriving:
            if "100-continue" in request.headers.get("expect", "").lower():
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._room = request.room()
            self._transport.resume_reading()

    def certificate(self) -> dict[str, object] | None:
        """What the caller proved to be, over TLS."""
        found = self._transport.get_extra_info("peercert")
        return cast("dict[str, object] | None", found)

    def close_idle(self) -> None:
        """Close it now, or as soon as the answer under way is out."""
        if self._task is None and not self._queue:
            self._transport.close()
        else:
            self._begin_next(late=True)

    def close(self) -> None:
        """Close it once everything is out."""
        self._transport.close()

    def abort(self) -> None:
        """Close it without another word."""
        self._transport.abort()

    @property
    def unsent(self) -> int:
        """How many bytes of answers the caller did not take yet."""
        return self._transport.get_write_buffer_size()

    @property
    def waits_since(self) -> float | None:
        """Since when the caller has to send or to read something; ``None`` while an answer is made."""
        return None if self._task is not None and self._arriving is None else self._idle_since

    @property
    def task(self) -> "asyncio.Task[None] | None":
        """Who works on an answer."""
        return self._task

    def _known(self, count: int) -> bool:
        """Whether a request begins with these bytes in words that we know; they are taken then."""
        if self._arriving is not None or self._in_head or self._queue or self._garbage or self._choked:
            return False
        scratch = self._server.scratch
        found = self._heads.find(cast("bytearray", scratch.obj), count)
        if found is None:
            return False
        head, length, start = found
        if count - start > length:
            # More than one request: it takes a parser to know where the next one begins.
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
            raise ValueError(_LONG_HEAD)

    def _feed(self, data: memoryview) -> None:
        between = self._arriving is None and not self._in_head and not self._queue
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            # Another protocol is offered with the request, and the parser leaves its body to that. It is
            # answered as any other, and nothing after it is read.
            (self._arriving or self._queue[-1]).keep_alive = False
            if self._arriving is not None:
                self._arriving.take(bytes(data[offer.args[0] :])[: self._arriving.length])
                self.on_message_complete()
        except httptools.HttpParserError as error:
            self._not_http(error)
            return
        if not self._head_in_bounds(len(data)):
            return
        if between and len(self._queue) == 1:
            self._heads.remember(bytes(data[:LONGEST]), self._queue[0])
        if self._arriving is not None:
            if self._arriving.length is not None:
                # The rest of the body goes past the parser, so the next request needs another one.
                self._parser = httptools.HttpRequestParser(self)
            self._hold_back(self._arriving)
        elif len(self._queue) > _QUEUED:
            self._transport.pause_reading()
        if self._task is None:
            self._begin_next()

    def _head_in_bounds(self, count: int) -> bool:
        """Whether what came of a head is neither too long nor too slow."""
        if not self._in_head:
            if self._due is not None and not self._choked:
                self._wind(None)
            return True
        # The parser keeps what is not whole yet: it may be one header without end.
        self._unparsed += count
        if self._unparsed > _HEAD_BYTES + READ_BYTES:
            self._not_http(_LONG_HEAD)
            return False
        # From the first byte of the head to the last: more bytes in between do not wind it again.
        if self._due is None:
            self._wind(self._server.limits.header_seconds)
        return True

    def _hold_back(self, request: Request) -> None:
        """The head is there and the body is not: a small one is read on, a large one when it is wanted."""
        self._idle_since = self._loop.time()
        waits = request.large or "expect" in request.headers
        if self._task is not None or self._queue[0] is not request:
            waits = waits or (request.length or 0) > _QUEUED_BYTES or len(self._queue) > _QUEUED
        if request.wanted or not waits:
            self._room = request.room()
        else:
            self._transport.pause_reading()

    def _begin_next(self, *, late: bool = False) -> None:
        """Answer what waits. What is not whole yet has a moment to become so, unless it is ``late``."""
        while self._queue and self._task is None and not self._choked and not self._ended:
            request = self._queue[0]
            if not (request.complete or late or self._said_all) and self._room is not None:
                if self._late is None:
                    self._late = self._loop.call_later(_LATE_SECONDS, self._begin_late)
                return
            self._not_late()
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
            # In its turn: requests before it were fine.
            self._send(_NOT_HTTP, keep=False)
            self._hang_up(linger=True)

    def _begin_late(self) -> None:
        """The rest of a body is a long time coming: whoever answers waits for it, with a clock."""
        self._late = None
        self._begin_next(late=True)

    def _not_late(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _at_once(self, path: str, body: bytes) -> Response | None:
        if self._server.at_once is None:
            return None
        try:
            return self._server.at_once(path, body, self)
        except Exception:
            log.exception("a request was not answered at once: this is a bug in Bayplan")
            return None

    async def _answer(self, request: Request) -> None:
        try:
            response = await self._server.handler(request)
        except Exception:
            log.exception("a request was not answered: this is a bug in Bayplan")
            response = _BROKEN
        finally:
            self._task = None
        whole = request.complete
        keep = whole and request.keep_alive
        self._answered(response, keep=keep, whole=whole, head_only=request.method == "HEAD")
        self._begin_next()

    def _answered(
        self, response: Response, *, keep: bool, whole: bool = True, head_only: bool = False
    ) -> None:
        """Send it; the connection is kept where both sides want that."""
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
        """No more is heard; a caller that is still sending may see its answer first."""
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
        self._wind(min(_LINGER_SECONDS, self._server.limits.body_seconds), abort=True)

    def _not_http(self, error: object) -> None:
        """Bytes that are no HTTP are said once in a while: a port scanner sends nothing else."""
        who = (self._transport.get_extra_info("peername") or ("somebody",))[0]
        reason = " ".join(str(error).split())[:200]
        self._server.warnings.warn(log, "not HTTP", f"{who} sent no HTTP: {reason}")
        self._transport.pause_reading()
        self._in_head = False
        self._wind(None)
        if self._arriving is not None:
            # Its head was fine: it is answered for what came of its body, and nothing after it is read.
            self._arriving.keep_alive = False
            self._arriving.broke_off(reason)
            self._arriving = None
        else:
            self._garbage = True
        self._begin_next()

    def _wind(self, seconds: float | None, *, abort: bool = False) -> None:
        """One clock at a time: for the head, for the answer, or for what is thrown away."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        if seconds is not None:
            end = self._transport.abort if abort else self._transport.close
            self._due = self._loop.call_later(seconds, end)

    def _watch_idle(self) -> None:
        """Close it when it was idle for long enough; looks again when it was not."""
        busy = self._task is not None or self._arriving is not None or self._in_head
        left = self._idle_since + self._server.limits.keep_alive_seconds - self._loop.time()
        if busy:
            left = self._server.limits.keep_alive_seconds
        if left <= 0:
            self._transport.close()
        else:
            self._idle = self._loop.call_later(max(left, 0.01), self._watch_idle)


def _path_of(target: bytes) -> str:
    """Where a request goes; through a proxy it may come with all of its URL, which a server has to take."""
    path = target.partition(b"?")[0]
    if not path.startswith(b"/") and b"://" in path:
        path = b"/" + path.partition(b"://")[2].partition(b"/")[2]
    return path.decode("latin-1")
