"""A caller over a bare socket: prepared bytes out, one buffer in, nothing that costs time of its own.

The body comes in two parts, the pod and the nodes: the large one is the same bytes for every call, and is
never copied. A server that hangs up after each answer is called anew, and that is part of its time.
"""

import socket
import time
from types import TracebackType
from typing import Self

_SMALLEST_BUFFER = 1 << 20
_TIMEOUT_SECONDS = 120.0


class HttpError(RuntimeError):
    """What came back is no answer."""


class Caller:
    """One connection that is kept, as kube-scheduler keeps it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None
        self._buffer = bytearray(_SMALLEST_BUFFER)
        self._answer = (0, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._hang_up()

    @property
    def answer(self) -> bytes:
        """The body of the last answer."""
        start, end = self._answer
        return bytes(self._buffer[start:end])

    def call(self, verb: str, first: bytes, rest: bytes) -> float:
        """POST the two parts of a body; seconds until the whole answer was there."""
        head = (
            f"POST /{verb} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(first) + len(rest)}\r\n\r\n"
        ).encode()
        before = time.perf_counter()
        connection = self._socket or self._connect()
        self._send(connection, head + first, rest)
        keep = self._read(connection)
        seconds = time.perf_counter() - before
        if not keep:
            self._hang_up()
        return seconds

    def _connect(self) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self._port), timeout=_TIMEOUT_SECONDS)
        # As Go's client does: what was written goes out at once.
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = made
        return made

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, connection: socket.socket, first: bytes, rest: bytes) -> None:
        """Both in one write as far as the kernel takes them, without joining them."""
        sent = connection.sendmsg([first, rest]) - len(first)
        if sent < 0:
            connection.sendall(first[sent:])
        if sent < len(rest):
            connection.sendall(memoryview(rest)[max(sent, 0) :])

    def _read(self, connection: socket.socket) -> bool:
        """Read one answer into the buffer; whether the connection may be used again."""
        have, start = 0, -1
        while start < 0:
            have += self._receive(connection, have)
            start = self._buffer.find(b"\r\n\r\n", 0, have)
        head = bytes(self._buffer[:start]).decode("latin-1")
        status, *lines = head.split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if status.split(" ", 2)[1] != "200" or "content-length" not in fields:
            raise HttpError(f"port {self._port}: {head!r}")
        start += 4
        end = start + int(fields["content-length"])
        if len(self._buffer) < end:
            self._buffer += bytes(end - len(self._buffer))
        while have < end:
            have += self._receive(connection, have)
        self._answer = (start, end)
        return status.startswith("HTTP/1.1") and fields.get("connection", "").lower() != "close"

    def _receive(self, connection: socket.socket, have: int) -> int:
        with memoryview(self._buffer) as whole:
            count = connection.recv_into(whole[have:])
        if not count:
            raise HttpError(f"port {self._port}: hung up in the middle of an answer")
        return count
