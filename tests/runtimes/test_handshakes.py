"""Callers over TLS: those that do not go on with their handshake are bounded, and the others let in."""

import asyncio
import errno
import socket
import ssl
import warnings
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from bayplan.ops.tls import TlsFiles
from bayplan.runtimes.extender.exchange import Response
from bayplan.runtimes.extender.verb_server import VerbServer
from bayplan.runtimes.fast_loop import run_in_fast_loop
from bayplan.runtimes.limits import Limits
from bayplan.runtimes.listener import Listener
from tests.controlplane.certs import Authority, make_ca
from tests.runtimes.extender.caller import Caller

Run = Callable[[Callable[[], Coroutine[None, None, None]]], None]

both_loops = pytest.mark.parametrize(
    "run", [run_in_fast_loop, lambda main: asyncio.run(main())], ids=["uvloop", "asyncio"]
)


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_ca("the-ca", tmp_path_factory.mktemp("ca"))


async def greets(_request: object) -> Response:
    return Response(b"[]")


async def listening(ca: Authority, *, connections: int) -> Listener:
    server = VerbServer(greets, Limits(max_connections=connections, header_seconds=20.0))
    listener = Listener(server, ("127.0.0.1", 0), flag="--listen")
    issued = ca.issue("extender", ips=["127.0.0.1"], server=True)
    await listener.listen(TlsFiles(Path(issued.cert), Path(issued.key)).context())
    return listener


async def is_served(listener: Listener, ca: Authority) -> bool:
    tls = ssl.create_default_context(cafile=str(ca.cert))
    async with await Caller.connect(listener.address, tls=tls) as caller:
        return (await caller.post("filter", {})).status == 200


@both_loops
def test_for_newcomers_the_oldest_handshakes_that_nobody_goes_on_with_are_ended(
    ca: Authority, run: Run
) -> None:
    async def main() -> None:
        listener = await listening(ca, connections=4)
        silent = [await Caller.connect(listener.address) for _ in range(20)]

        try:
            gone = await asyncio.gather(*(caller.hung_up(patience_seconds=5.0) for caller in silent[:16]))
            assert all(gone)
            assert not await silent[-1].hung_up(patience_seconds=0.1)
            assert await is_served(listener, ca)
        finally:
            for caller in silent:
                caller.writer.transport.abort()
            await listener.close()

    run(main)


@both_loops
def test_a_handshake_under_way_ends_with_the_server(ca: Authority, run: Run) -> None:
    with ExitStack() as callers, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        silent: list[socket.socket] = []

        async def main() -> None:
            listener = await listening(ca, connections=4)
            here = listener.address
            silent.extend(callers.enter_context(socket.create_connection(here)) for _ in range(3))
            await asyncio.sleep(0.1)
            await listener.close()

        run(main)

        for each in silent:
            each.settimeout(5)
            with suppress(ConnectionResetError):
                assert each.recv(1) == b""
    assert [str(each.message) for each in told] == [], "nothing is left open"


async def test_where_no_file_is_left_it_goes_on_a_moment_later(
    ca: Authority, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("bayplan.runtimes.handshakes._PAUSE_SECONDS", 0.1)
    listener = await listening(ca, connections=4)
    handshakes: Any = listener._server
    real, full = handshakes._listening, [True]

    class Full:
        fileno = real.fileno

        def accept(self) -> Any:
            if full.pop() if full else False:
                raise OSError(errno.EMFILE, "Too many open files")
            return real.accept()

    handshakes._listening = Full()

    assert await is_served(listener, ca)

    assert "nobody can connect for a moment: [Errno 24] Too many open files" in caplog.text
    await listener.close()
