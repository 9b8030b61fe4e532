"""Lines that may gather: they are read in one go after a while, and none is lost."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from bayplan.client.errors import Unreachable
from tests.client.serving import client_of, serving, write_kubeconfig

SECONDS = 0.1
Then = Callable[[web.BaseRequest, web.StreamResponse], Awaitable[None]]


class Watched:
    """A server that sends one line, then goes on once the reader lets lines gather."""

    def __init__(self, then: Then) -> None:
        self.gathering = asyncio.Event()
        self.since = 0.0
        self._then = then

    def gather_seconds(self) -> float:
        """Called when the reader has read what there was."""
        if not self.gathering.is_set():
            self.since = asyncio.get_running_loop().time()
            self.gathering.set()
        return SECONDS

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first\n")
        await self.gathering.wait()
        await self._then(request, response)
        return response

    async def lines(self, folder: Path) -> list[tuple[bytes, float]]:
        """What is read, and how long after the first line."""
        async with (
            asyncio.timeout(10),
            serving(self.handle) as server,
            client_of(write_kubeconfig(folder, cluster={"server": server})) as client,
        ):
            read = client.lines(
                "/watch", params={}, doing="watching", silence_seconds=60, gather_seconds=self.gather_seconds
            )
            return [(line, asyncio.get_running_loop().time() - self.since) async for line in read]


async def test_what_comes_meanwhile_is_read_afterwards(tmp_path: Path) -> None:
    async def two_more(_: web.BaseRequest, response: web.StreamResponse) -> None:
        await response.write(b"second\nthi")
        await response.write(b"rd\n")

    found = await Watched(two_more).lines(tmp_path)

    assert [line for line, _ in found] == [b"first", b"second", b"third"]
    assert min(seconds for _, seconds in found[1:]) >= SECONDS


async def test_a_stream_that_ends_meanwhile_has_ended(tmp_path: Path) -> None:
    async def ends(_: web.BaseRequest, response: web.StreamResponse) -> None:
        await response.write_eof()

    assert [line for line, _ in await Watched(ends).lines(tmp_path)] == [b"first"]


async def test_a_connection_that_breaks_meanwhile_is_told_of(tmp_path: Path) -> None:
    async def breaks(request: web.BaseRequest, _: web.StreamResponse) -> None:
        assert request.transport is not None
        request.transport.abort()

    with pytest.raises(Unreachable, match="watching: "):
        await Watched(breaks).lines(tmp_path)
