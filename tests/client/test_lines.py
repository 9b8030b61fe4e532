"""Connections to the API server: opened once, used again, and never trusted after something went wrong."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from bayplan.client import lines as lines_module
from bayplan.client.answer import BadAnswer
from bayplan.client.line import Broken, Place, open_line
from bayplan.client.lines import Lines

_REQUEST = b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n"
_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

Behave = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class _Server:
    """Plays an API server of any behaviour, and counts who comes."""

    def __init__(self, behave: Behave) -> None:
        self.connections = 0
        self._behave = behave
        self._tasks: set[asyncio.Task[None]] = set()
        self.lines: Lines

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._behave(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def end(self) -> None:
        """Nobody is served any more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def _serving(behave: Behave, *, limit: int = 4) -> AsyncIterator[_Server]:
    played = _Server(behave)
    server = await asyncio.start_server(played.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    played.lines = Lines(f"http://127.0.0.1:{port}", limit=limit)
    try:
        yield played
    finally:
        played.lines.close()
        server.close()
        await played.end()


async def _ask(
    lines: Lines, request: bytes = _REQUEST, *, timeout_seconds: float = 5.0, urgent: bool = False
) -> bytes:
    async with lines.line(None, timeout_seconds=timeout_seconds, urgent=urgent) as line:
        return (await line.ask(request, timeout_seconds=timeout_seconds)).body


async def _answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(_OK)


async def test_one_connection_serves_one_request_after_another() -> None:
    async with _serving(_answers) as server:
        for _ in range(5):
            assert await _ask(server.lines) == b"ok"

    assert server.connections == 1


async def test_requests_at_the_same_time_have_connections_of_their_own_up_to_the_limit() -> None:
    async with _serving(_answers, limit=3) as server:
        assert await asyncio.gather(*(_ask(server.lines) for _ in range(20))) == [b"ok"] * 20

    assert 1 < server.connections <= 3


async def test_a_large_request_goes_out_in_pieces() -> None:
    body = b"x" * 8_000_000

    async def swallows(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.05)
        assert await reader.readexactly(len(body)) == body
        writer.write(_OK)

    async with _serving(swallows) as server:
        head = f"POST / HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode()

        assert await _ask(server.lines, head + body) == b"ok"


@pytest.mark.parametrize(
    ("said", "error"),
    [
        pytest.param(b"", Broken, id="closed without a word"),
        pytest.param(_OK[:-1], Broken, id="closed in mid-answer"),
        pytest.param(b"nonsense\r\n\r\n", BadAnswer, id="nonsense"),
    ],
)
async def test_a_connection_that_failed_is_not_used_again(said: bytes, error: type[Exception]) -> None:
    async def fails_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if server.connections > 1:
            return await _answers(reader, writer)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        return None

    async with _serving(fails_once) as server:
        with pytest.raises(error):
            await _ask(server.lines)

        assert await _ask(server.lines) == b"ok"
        assert server.connections == 2


async def test_an_answer_that_comes_too_late_is_never_taken_for_the_next_one() -> None:
    late = asyncio.Event()

    async def late_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if server.connections > 1:
            return await _answers(reader, writer)
        await reader.readuntil(b"\r\n\r\n")
        await late.wait()
        writer.write(_OK.replace(b"ok", b"no"))
        return None

    async with _serving(late_once) as server:
        with pytest.raises(TimeoutError):
            await _ask(server.lines, timeout_seconds=0.05)
        late.set()

        assert await _ask(server.lines) == b"ok"


async def test_whoever_is_cancelled_leaves_no_half_read_connection_behind() -> None:
    asked = asyncio.Event()

    async def waits_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if server.connections > 1:
            return await _answers(reader, writer)
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await reader.read()
        return None

    async with _serving(waits_once, limit=1) as server:
        task = asyncio.create_task(_ask(server.lines))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert await _ask(server.lines) == b"ok"


async def test_an_idle_connection_that_the_server_closes_is_replaced() -> None:
    closing = asyncio.Event()
    closed = asyncio.Event()

    async def closes_after_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(_OK)
        await writer.drain()
        await closing.wait()
        writer.close()
        await writer.wait_closed()
        closed.set()

    async with _serving(closes_after_one) as server:
        assert await _ask(server.lines) == b"ok"
        closing.set()
        await closed.wait()
        # Our end hears of it in the next turn of the loop.
        await asyncio.sleep(0.05)

        assert await _ask(server.lines) == b"ok"
        assert server.connections == 2


async def test_a_server_that_says_close_gets_a_new_connection_next_time() -> None:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(_OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        await reader.read()

    async with _serving(once) as server:
        assert await _ask(server.lines) == b"ok"
        assert await _ask(server.lines) == b"ok"
        assert server.connections == 2


async def test_whoever_waits_too_long_for_a_turn_is_told_so() -> None:
    async def never(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with _serving(never, limit=1) as server:
        first = asyncio.create_task(_ask(server.lines))
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            await _ask(server.lines, timeout_seconds=0.05)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)


async def test_what_is_urgent_does_not_wait_for_its_turn_and_takes_it_from_nobody() -> None:
    go_on, most, now = asyncio.Event(), 0, 0

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal most, now
        while True:
            if (await reader.readuntil(b"\r\n\r\n")).startswith(b"PUT"):
                writer.write(_OK)
                continue
            now += 1
            most = max(most, now)
            await go_on.wait()
            now -= 1
            writer.write(_OK)

    async with _serving(slow, limit=2) as server:
        others = [asyncio.create_task(_ask(server.lines)) for _ in range(6)]
        async with asyncio.timeout(5):
            while now < 2:  # noqa: ASYNC110 - what is waited for has no event of its own
                await asyncio.sleep(0.001)
        put = _REQUEST.replace(b"POST", b"PUT")
        assert await _ask(server.lines, put, timeout_seconds=2, urgent=True) == b"ok"
        assert await _ask(server.lines, put, timeout_seconds=2, urgent=True) == b"ok"
        go_on.set()

        assert await asyncio.gather(*others) == [b"ok"] * 6
        assert most == 2
        assert await _ask(server.lines) == b"ok"


async def test_where_nobody_listens_there_is_no_line() -> None:
    async with _serving(_answers) as server:
        gone = server.lines
    lines = Lines(f"http://{gone.authority}")

    with pytest.raises(OSError):  # noqa: PT011 - refused, or reset: that is the system's choice
        await _ask(lines)


async def test_whoever_waited_for_a_turn_has_less_time_to_open_a_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twice the time could be over before a bind goes out, and somebody else be the one who binds."""
    given: list[float] = []

    def noted(place: Place, tls: ssl.SSLContext | None, *, timeout_seconds: float) -> socket.socket:
        given.append(timeout_seconds)
        return open_line(place, tls, timeout_seconds=timeout_seconds)

    monkeypatch.setattr(lines_module, "open_line", noted)

    async def breaks(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.2)

    async with _serving(breaks, limit=1) as server:
        first = asyncio.create_task(_ask(server.lines))
        await asyncio.sleep(0)
        with pytest.raises(Broken):
            await _ask(server.lines, timeout_seconds=30)
        await asyncio.gather(first, return_exceptions=True)

    assert len(given) == 2
    assert given[1] < 29.9


async def test_no_connection_is_opened_when_the_time_is_over() -> None:
    async with _serving(_answers) as server:
        with pytest.raises(TimeoutError):
            await _ask(server.lines, timeout_seconds=0)

        assert server.connections == 0
