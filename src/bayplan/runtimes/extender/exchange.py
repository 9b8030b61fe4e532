"""An HTTP request, whose body may still be arriving, and an HTTP response."""

import asyncio
import time
from email.utils import formatdate
from http import HTTPStatus
from typing import Protocol, cast

from msgspec import Struct, field

# A larger request is read only in its turn, few at a time.
LARGE_BYTES = 1024 * 1024
# A body over the limit is read and thrown away up to this multiple of the limit: a caller that cannot finish
# sending its request never reads the answer that says why.
_DRAIN_FACTOR = 4


class BodyError(Exception):
    """The body was not read; the text says why. The connection stays usable if the whole body arrived."""


class Response(Struct, frozen=True):
    """An HTTP response; its body is JSON for every status."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    close: bool = False
    """Whether to close the connection after it."""


class Spelling:
    """Writes the heads of responses."""

    def __init__(self) -> None:
        self._date = ""
        self._dated = 0

    def head(self, response: Response, *, keep: bool) -> bytes:
        """Status line and headers of the response; ``keep``: whether the connection stays open."""
        now = int(time.time())
        if now != self._dated:
            # Formatted once a second.
            self._date, self._dated = f"Date: {formatdate(now, usegmt=True)}\r\n", now
        more = "" if keep else "Connection: close\r\n"
        for name, value in response.headers.items():
            more += f"{name}: {value}\r\n"
        status = "200 OK" if response.status == 200 else _status(response.status)
        return (
            f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(response.body)}\r\n{self._date}{more}\r\n"
        ).encode("latin-1")


def _status(code: int) -> str:
    return f"{code} {HTTPStatus(code).phrase}"


class Line(Protocol):
    """The connection that a request came over."""

    def go_on(self, request: "Request") -> None:
        """Read the request's body, which was held back until now."""
        ...

    def certificate(self) -> dict[str, object] | None:
        """The caller's verified client certificate; ``None`` without one."""
        ...


class Request:
    """One HTTP request, whose body may still be arriving."""

    __slots__ = (
        "_broken",
        "_buffer",
        "_came",
        "_chunks",
        "_limit",
        "_line",
        "_waiting",
        "complete",
        "headers",
        "keep_alive",
        "length",
        "method",
        "path",
        "tried",
        "wanted",
    )

    def __init__(
        self, line: Line, *, method: str, path: str, headers: dict[str, str], limit: int, keep_alive: bool
    ) -> None:
        self._line = line
        self._limit = limit
        self.method = method
        self.path = path
        self.headers = headers
        """By lower-case name."""
        self.keep_alive = keep_alive
        chunked = "transfer-encoding" in headers
        self.length: int | None = None if chunked else int(headers.get("content-length", 0))
        """Length of the body; ``None`` if it comes in chunks."""
        self.complete = self.length == 0
        """Whether the whole body arrived."""
        self.wanted = False
        """Whether `read` was called."""
        self.tried = False
        """Whether a known answer was looked up, without success."""
        self._came = 0
        self._chunks: list[bytes] = []
        self._buffer: bytearray | None = None
        self._broken = ""
        self._waiting: asyncio.Future[None] | None = None

    @property
    def large(self) -> bool:
        """Whether the request is read only in its turn, few at a time."""
        return self.length is None or self.length > LARGE_BYTES

    def certificate(self) -> dict[str, object] | None:
        """The caller's verified client certificate; ``None`` without one."""
        return self._line.certificate()

    @property
    def left(self) -> int:
        """How many bytes of a body of known length are still missing."""
        return (self.length or 0) - self._came

    @property
    def whole(self) -> bytes | None:
        """The body, if it arrived whole and within the limit."""
        if not self.complete or self._broken or self._came > self._limit:
            return None
        return self._body()

    async def read(self, *, timeout_seconds: float) -> bytes:
        """The whole body, or `BodyError`."""
        if not (self.complete or self._broken or self._hopeless):
            self.wanted = True
            self._line.go_on(self)
            self._waiting = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(timeout_seconds):
                    await self._waiting
            except TimeoutError:
                text = f"the request's body did not arrive within {timeout_seconds:.0f} s"
                raise BodyError(text) from None
        if self._broken:
            raise BodyError(f"the request's body broke off: {self._broken}")
        if max(self._came, self.length or 0) > self._limit:
            text = f"the request is larger than {self._limit} bytes: raise extender.limits.maxBodyBytes"
            raise BodyError(f"{text}, or set nodeCacheCapable: true")
        return self._body()

    def _body(self) -> bytes:
        if self._buffer is not None:
            # Complete, so the buffer no longer changes.
            return cast("bytes", self._buffer)
        return self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)

    @property
    def _hopeless(self) -> bool:
        """Whether the body is so far over the limit that its rest is not even read."""
        return max(self._came, self.length or 0) > self._limit * _DRAIN_FACTOR

    def room(self) -> memoryview | None:
        """The buffer for the rest of a body of known length; ``None`` if the body is thrown away."""
        if self.length is None or self.length > self._limit:
            return None
        if self._buffer is None:
            # The kernel maps its pages on first use: a body that is announced and never sent costs no memory.
            self._buffer = bytearray(self.length)
            self._buffer[: self._came] = b"".join(self._chunks)
            self._chunks.clear()
        return memoryview(self._buffer)[self._came :]

    def take(self, data: bytes) -> None:
        """Take a part of the body."""
        if self._came + len(data) > self._limit:
            self._chunks.clear()
            self._buffer = None
        elif self.length is None:
            # One buffer: as an object each, chunks of a few bytes would take thirty times their size.
            self._buffer = bytearray() if self._buffer is None else self._buffer
            self._buffer += data
        else:
            self._chunks.append(data)
        self.filled(len(data))

    def filled(self, count: int) -> None:
        """Count bytes that arrived, whether stored or thrown away."""
        self._came += count
        if self._came == self.length:
            self.ended()
        elif self._hopeless:
            self._wake()

    def ended(self) -> None:
        """The whole body arrived."""
        self.complete = True
        self._wake()

    def broke_off(self, reason: str) -> None:
        """The rest of the body will not arrive."""
        self._broken = reason
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
