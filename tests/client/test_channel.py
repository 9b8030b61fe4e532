"""One request on its way: what must not go out does not."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator

import pytest

from bayplan.client.channel import Channel
from bayplan.client.connect import Connection
from bayplan.client.errors import NotSent
from bayplan.client.lines import Lines


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
    async def late(_: Lines, tls: ssl.SSLContext | None, *, timeout_seconds: float) -> AsyncIterator[Asked]:
        del tls
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
