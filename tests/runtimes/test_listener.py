"""Where we listen: on one address, or on every one of IPv4 and IPv6, whatever the machine has."""

import asyncio
import errno
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from bayplan.runtimes.connection import HttpServer
from bayplan.runtimes.extender.verb_server import VerbServer
from bayplan.runtimes.fast_loop import run_in_fast_loop
from bayplan.runtimes.limits import Limits
from bayplan.runtimes.listener import Listener, ListenError, is_loopback, written
from bayplan.runtimes.sections import address
from tests.controlplane.ports import free_port

HOSTS = ("127.0.0.1", "::1")


def has_ipv6() -> bool:
    """Whether this machine has IPv6 on loopback."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


with_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="NO IPv6 ON THIS MACHINE: both families are not tried")


class Greeter:
    """Says where it is to everybody who connects."""

    limits = Limits()
    connections = ()

    def __call__(self) -> asyncio.Protocol:
        class Greeting(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                assert isinstance(transport, asyncio.WriteTransport)
                transport.write(b"here")
                transport.close()

        return Greeting()

    def pre_shutdown(self) -> None:
        """Nobody stays."""

    async def shutdown(self, timeout: float) -> None:  # noqa: ASYNC109 - as it is called
        """Nobody stays."""


@contextmanager
def listening(text: str) -> Iterator[Listener]:
    """Listening where a configuration says."""
    made = Listener(Greeter(), address(text, key="extender.listen"), flag="--listen")
    try:
        yield made
    finally:
        made.stop_accepting()


def reached(text: str, hosts: tuple[str, ...] = HOSTS) -> list[str]:
    """At which of these hosts somebody answers, when we listen there."""

    async def ask(host: str, port: int) -> str:
        try:
            reader, writer = await asyncio.open_connection(host, port)
        except OSError:
            return ""
        said = await reader.read()
        writer.close()
        await writer.wait_closed()
        return host if said == b"here" else ""

    async def run() -> list[str]:
        with listening(text) as listener:
            await listener.listen(None)
            found = [await ask(host, listener.address[1]) for host in hosts]
            await listener.close()
        return [host for host in found if host]

    return asyncio.run(run())


@with_ipv6
@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        pytest.param(":0", list(HOSTS), id="without a host"),
        pytest.param("[::]:0", list(HOSTS), id="every address of IPv6"),
        pytest.param("0.0.0.0:0", ["127.0.0.1"], id="every address of IPv4"),
        pytest.param("[::1]:0", ["::1"], id="loopback of IPv6"),
        pytest.param("127.0.0.1:0", ["127.0.0.1"], id="loopback of IPv4"),
    ],
)
def test_who_reaches_us(text: str, hosts: list[str]) -> None:
    assert reached(text) == hosts


@with_ipv6
async def test_both_families_answer_also_where_a_machine_keeps_them_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class KeptApart(socket.socket):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            if self.family == socket.AF_INET6 and named.get("fileno") is None:
                self.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)

    with monkeypatch.context() as patched:
        patched.setattr(socket, "socket", KeptApart)
        with listening(":0") as listener:
            port = listener.address[1]
            for host in HOSTS:
                socket.create_connection((host, port), timeout=5).close()


@pytest.mark.parametrize(
    "missing",
    [
        pytest.param(errno.EAFNOSUPPORT, id="the kernel has none"),
        pytest.param(errno.EADDRNOTAVAIL, id="it is switched off"),
    ],
)
@pytest.mark.parametrize("text", [":0", "[::]:0"])
async def test_without_ipv6_every_address_is_that_of_ipv4(
    text: str, missing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class WithoutIpv6(socket.socket):
        def __init__(self, family: int = -1, *arguments: Any, **named: Any) -> None:
            if family == socket.AF_INET6:
                raise OSError(missing, "no IPv6")
            super().__init__(family, *arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(socket, "socket", WithoutIpv6)
        with listening(text) as listener:
            assert listener.address[0] == "0.0.0.0"
            socket.create_connection(("127.0.0.1", listener.address[1]), timeout=5).close()


@with_ipv6
async def test_a_port_that_is_taken_is_no_reason_to_do_without_ipv6() -> None:
    with (
        socket.create_server(("::1", free_port()), family=socket.AF_INET6) as taken,
        pytest.raises(ListenError, match=r"cannot listen on \[::\]:\d+: Address already in use"),
        listening(f":{taken.getsockname()[1]}"),
    ):
        pass


def test_an_address_is_written_as_in_a_url() -> None:
    assert written(("127.0.0.1", 1)) == "127.0.0.1:1"
    assert written(("::1", 1)) == "[::1]:1"


def test_every_address_is_reached_by_others() -> None:
    assert not is_loopback(address(":1", key="page.listen")[0])
    assert is_loopback(address("[::1]:1", key="page.listen")[0])


@pytest.mark.parametrize("steps", range(5))
@pytest.mark.parametrize("kind", [HttpServer, VerbServer])
def test_who_is_let_in_while_the_door_closes_is_closed_too(
    kind: type[HttpServer] | type[VerbServer], steps: int
) -> None:
    callers: list[socket.socket] = []

    async def nobody_asks(_request: object) -> Any:
        raise AssertionError

    async def open_and_close() -> None:
        listener = Listener(kind(nobody_asks, Limits()), ("127.0.0.1", 0), flag="--listen")
        await listener.listen(None)
        callers.extend(socket.create_connection(listener.address) for _ in range(4))
        for _ in range(steps):
            await asyncio.sleep(0)
        await listener.close()

    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            run_in_fast_loop(open_and_close)
        assert [str(each.message) for each in told] == [], "nothing is left open"
        for caller in callers:
            caller.settimeout(5)
            with suppress(ConnectionResetError):
                assert caller.recv(1) == b""
    finally:
        for caller in callers:
            caller.close()
