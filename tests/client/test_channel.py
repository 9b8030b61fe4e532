"""One request on its way: what must not go out does not."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from bayplan import __version__
from bayplan.client.channel import Channel
from bayplan.client.connect import Connection
from bayplan.client.errors import NotSent, Unreachable
from bayplan.client.lines import Lines
from tests.client.serving import serving
from tests.controlplane.ports import free_port


class Asked:
    """A connection that notes that it was used."""

    used = False

    async def ask(self, request: bytes, *, timeout_seconds: float) -> None:
        """Whatever it is."""
        del request, timeout_seconds
        self.used = True


async def test_a_connection_that_is_there_when_the_time_is_over_is_not_written_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By then somebody else may be the one who binds."""
    line = Asked()

    @contextlib.asynccontextmanager
    async def late(
        _: Lines, tls: ssl.SSLContext | None, *, timeout_seconds: float, urgent: bool
    ) -> AsyncIterator[Asked]:
        del tls, urgent
        await asyncio.sleep(timeout_seconds + 0.01)
        yield line

    monkeypatch.setattr(Lines, "line", late)
    channel = Channel(Connection("http://127.0.0.1:1", None))
    try:
        with pytest.raises(NotSent):
            await channel.send(
                "POST", "/x", doing="binding", data=b"", content_type="", params=None, timeout_seconds=0.05
            )
    finally:
        await channel.close()

    assert not line.used


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_audit_logs_have_our_name_and_version(method: str) -> None:
    names: list[str | None] = []

    async def note(request: web.BaseRequest) -> web.StreamResponse:
        names.append(request.headers.get("User-Agent"))
        return web.json_response({})

    async with serving(note) as url:
        channel = Channel(Connection(url, None))
        try:
            await channel.send(
                method, "/x", doing="asking", data=None, content_type="", params=None, timeout_seconds=5
            )
        finally:
            await channel.close()

    assert names == [f"bayplan/{__version__}"]


async def test_a_connection_that_fails_is_told_without_objects_of_a_library() -> None:
    port = free_port()
    channel = Channel(Connection(f"http://127.0.0.1:{port}", None))
    try:
        with pytest.raises(Unreachable) as found:
            await channel.send(
                "GET", "/x", doing="looking", data=None, content_type="", params=None, timeout_seconds=5
            )
    finally:
        await channel.close()

    assert str(found.value) == f"looking: cannot connect to 127.0.0.1:{port}: Connection refused"
