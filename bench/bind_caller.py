"""Many callers at once over bare connections: prepared bytes out, the next when the answer is there.

Each connection is a protocol that looks for one answer at a time, so that a call costs its caller little and
one process can keep many connections busy. What it takes of the processor is measured along with the calls.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"content-length:"
_TIMEOUT_SECONDS = 60.0


class CallFailed(RuntimeError):
    """What came back is not what was hoped for."""


@dataclass(frozen=True)
class Answer:
    """One answer."""

    status: int
    body: bytes


@dataclass(frozen=True)
class Place:
    """Where to call on this machine, and whether with TLS."""

    port: int
    tls: ssl.SSLContext | None = None


@dataclass(frozen=True)
class Batch:
    """Calls that were made together."""

    seconds: float
    """From the first to the last of them."""
    latencies: list[float]
    cpu_seconds: float
    """What the callers themselves took of the processor meanwhile."""

    @property
    def rate(self) -> float:
        """Calls a second."""
        return len(self.latencies) / self.seconds


async def call_all(
    place: Place, requests: Sequence[bytes], *, at_once: int, check: Callable[[Answer], str]
) -> Batch:
    """Send all of them, so many at once; `CallFailed` where ``check`` has something to say of an answer."""
    loop = asyncio.get_running_loop()
    connections = []
    for _ in range(at_once):
        _, made = await loop.create_connection(_Connection, "127.0.0.1", place.port, ssl=place.tls)
        connections.append(made)
    latencies: list[float] = []
    waiting = iter(requests)
    began, cpu = time.perf_counter(), time.process_time()
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS), asyncio.TaskGroup() as group:
            for connection in connections:
                group.create_task(_work(connection, waiting, latencies, check))
        return Batch(time.perf_counter() - began, latencies, time.process_time() - cpu)
    finally:
        for connection in connections:
            connection.close()


async def _work(
    connection: _Connection, waiting: Iterator[bytes], latencies: list[float], check: Callable[[Answer], str]
) -> None:
    for request in waiting:
        began = time.perf_counter()
        answer = await connection.ask(request)
        latencies.append(time.perf_counter() - began)
        if problem := check(answer):
            raise CallFailed(problem)


def post(path: str, body: bytes, *, port: int, token: str = "") -> bytes:
    """A request as bytes."""
    allowed = f"Authorization: Bearer {token}\r\n" if token else ""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{allowed}"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class _Connection(asyncio.Protocol):
    """One that is kept, with one call on it at a time."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._answer: asyncio.Future[Answer] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what to write to."""
        # That of uvloop is one by its methods, not by its class.
        self._transport = cast("asyncio.Transport", transport)

    async def ask(self, request: bytes) -> Answer:
        """Send a request, and wait for the whole answer."""
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def close(self) -> None:
        """Hang up."""
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        """See whether the answer is whole."""
        self._buffer += data
        end = self._buffer.find(_END_OF_HEAD)
        if end < 0:
            return
        head = bytes(self._buffer[:end]).lower()
        at = head.find(_LENGTH)
        if at < 0:
            self._fail(f"an answer without a length: {head!r}")
            return
        length = int(head[at + len(_LENGTH) :].split(b"\r\n", 1)[0])
        start = end + len(_END_OF_HEAD)
        if len(self._buffer) >= start + length:
            answer = Answer(int(head.split(b" ", 2)[1]), bytes(self._buffer[start : start + length]))
            self._buffer.clear()
            if self._answer is not None and not self._answer.done():
                self._answer.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        """Somebody waits in vain."""
        self._fail(f"hung up: {exc}")

    def _fail(self, why: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(CallFailed(why))
