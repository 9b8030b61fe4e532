"""A line is one open connection to the API server, used for one request at a time.

It uses the bare socket, without the layers of asyncio and an HTTP library: for a bind those take longer than
all the rest. It is opened in a thread, since a TLS handshake blocks.
"""

import asyncio
import contextlib
import socket
import ssl
from dataclasses import dataclass

from bayplan.client.answer import Answer, BadAnswer, Reader
from bayplan.client.sockets import open_socket

_READ_BYTES = 256 * 1024
_AGAIN = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Broken(OSError):
    """The connection was closed before the answer was complete."""


@dataclass(frozen=True)
class Place:
    """The address to connect to."""

    host: str
    port: int
    server_name: str
    """The name that the server's certificate must have."""


def open_line(place: Place, tls: ssl.SSLContext | None, *, timeout_seconds: float) -> socket.socket:
    """Open a connection, ready for requests. Blocks; raises `OSError` if it fails."""
    problem: OSError | None = None
    for address in socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM):
        plain = open_socket(address)
        try:
            plain.settimeout(timeout_seconds)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plain.connect(address[4])
            opened = plain if tls is None else tls.wrap_socket(plain, server_hostname=place.server_name)
            opened.setblocking(False)
        except OSError as error:
            plain.close()
            problem = error
        else:
            return opened
    raise problem or OSError(f"{place.host} has no address")


class Line:
    """An open connection for one request at a time; not used again after a failure."""

    def __init__(self, opened: socket.socket, *, tls: ssl.SSLContext | None) -> None:
        """``tls`` is the context the connection was opened with; other credentials need another line."""
        self.tls = tls
        self.closed = False
        self._socket = opened
        self._loop = asyncio.get_running_loop()
        self._unsent = memoryview(b"")
        self._full = False
        self._reader = Reader()
        self._answer: asyncio.Future[Answer] | None = None
        self._loop.add_reader(opened, self._readable)

    async def ask(self, request: bytes, *, timeout_seconds: float) -> Answer:
        """Send a request and wait for its answer; raises `Broken`, another `OSError`, or `TimeoutError`."""
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self._answer = answer
        late = self._loop.call_later(timeout_seconds, self._fail, TimeoutError())
        try:
            self._unsent = memoryview(request)
            self._writable()
            return await answer
        finally:
            late.cancel()
            if not answer.done() or answer.cancelled() or answer.exception() is not None:
                self.close()
            self._answer = None

    def close(self) -> None:
        """Close the connection, whatever is under way."""
        if self.closed:
            return
        self.closed = True
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        with contextlib.suppress(OSError):
            self._socket.close()

    def _writable(self) -> None:
        """Send as much as the socket takes, and the rest when it is writable again."""
        try:
            while self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except _AGAIN:
            self._loop.add_writer(self._socket, self._writable)
            self._full = True
            return
        except OSError as error:
            self._fail(error)
            return
        if self._full:
            self._loop.remove_writer(self._socket)
            self._full = False

    def _readable(self) -> None:
        try:
            while True:
                data = self._socket.recv(_READ_BYTES)
                if not self._take(data) or (len(data) < _READ_BYTES and not self._more()):
                    return
        except _AGAIN:
            return
        except (OSError, BadAnswer) as error:
            self._fail(error)

    def _more(self) -> bool:
        """Whether TLS has buffered bytes, of which the event loop does not know."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def _take(self, data: bytes) -> bool:
        """Process received bytes; false if there is nothing more to read for now."""
        waiting = self._answer
        if waiting is None or waiting.done():
            # Closed while idle, or bytes without a request: the connection is unusable.
            self.close()
            return False
        if not data:
            self._fail(Broken("the connection was closed before the answer was there"))
            return False
        answer = self._reader.feed(data)
        if answer is None:
            return True
        self._reader = Reader()
        waiting.set_result(answer)
        if answer.last:
            self.close()
        return False

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
        self.close()
