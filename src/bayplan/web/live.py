"""Server-sent events for open pages: there are new decisions, or a tick.

An event is cheap and the same for all: the browser then fetches what it shows. A caller that does not read
is cut off; browsers reconnect by themselves.
"""

import asyncio
import contextlib
from collections.abc import Mapping

from aiohttp import web

from bayplan.engine.entry import Entry

MAX_CLIENTS = 32
_RETRY_MILLISECONDS = 3000


class Live:
    """Announces new decisions: `add` is called by policy threads, `stream` runs in the event loop."""

    def __init__(
        self,
        *,
        max_clients: int = MAX_CLIENTS,
        gather_seconds: float = 0.25,
        tick_seconds: float = 5.0,
        write_seconds: float = 10.0,
    ) -> None:
        self._max_clients = max_clients
        self._gather_seconds = gather_seconds
        self._tick_seconds = tick_seconds
        self._write_seconds = write_seconds
        self._loop = asyncio.get_running_loop()
        self._waiting: set[asyncio.Future[None]] = set()
        self._requests: dict[int, web.BaseRequest] = {}
        self._newest = 0
        self._on_the_way = False
        self._ended = False

    @property
    def clients(self) -> int:
        """The number of listening callers."""
        # A closed connection gets one more write before its stream ends, but no longer counts.
        sockets = (each.transport for each in self._requests.values())
        return sum(socket is not None and not socket.is_closing() for socket in sockets)

    @property
    def ended(self) -> bool:
        """Whether all streams were ended."""
        return self._ended

    def add(self, entry: Entry) -> None:
        """Announce an entry, from any thread."""
        self._newest = max(self._newest, entry.number)
        # Waking the loop is expensive: not if nobody waits, and once for all entries until it has woken up.
        if self._waiting and not self._on_the_way:
            self._on_the_way = True
            # The loop has just ended, and nobody listens.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._wake)

    def end(self) -> None:
        """End all streams."""
        self._ended = True
        self._wake()

    async def stream(self, request: web.BaseRequest, headers: Mapping[str, str]) -> web.StreamResponse:
        """Send events to one caller until it disconnects."""
        if self.clients >= self._max_clients:
            text = f"{self.clients} pages are open already; close one"
            return web.Response(status=503, text=text, headers={**headers, "Retry-After": "10"})
        headers = {**headers, "Content-Type": "text/event-stream"}
        if request.method == "HEAD":
            return web.Response(headers=headers)
        response = web.StreamResponse(headers=headers)
        self._requests[id(request)] = request
        try:
            await response.prepare(request)
            await self._tell(response)
        except (ConnectionError, TimeoutError):
            # Disconnected, or too slow: drop what is buffered for it.
            if request.transport is not None:
                request.transport.abort()
        finally:
            del self._requests[id(request)]
        return response

    async def _tell(self, response: web.StreamResponse) -> None:
        seen = self._newest
        await self._write(response, f"retry: {_RETRY_MILLISECONDS}\nevent: hello\ndata: {seen}\n\n")
        while not self._ended:
            if self._newest == seen:
                await self._news(seen)
            if self._newest != seen and not self._ended:
                # Decisions come in bursts: one event for all of them.
                await asyncio.sleep(self._gather_seconds)
                seen = self._newest
                await self._write(response, f"event: decisions\ndata: {seen}\n\n")
            elif not self._ended:
                await self._write(response, f"event: tick\ndata: {seen}\n\n")

    async def _news(self, seen: int) -> None:
        """Wait for an entry after the one that was seen, or for the next tick."""
        news: asyncio.Future[None] = self._loop.create_future()
        self._waiting.add(news)
        try:
            # `add` woke nobody for an entry that came before the line above.
            if self._newest == seen:
                await asyncio.wait_for(news, self._tick_seconds)
        except TimeoutError:
            pass
        finally:
            self._waiting.discard(news)

    async def _write(self, response: web.StreamResponse, text: str) -> None:
        async with asyncio.timeout(self._write_seconds):
            await response.write(text.encode())

    def _wake(self) -> None:
        # Reset first, so that an entry from now on wakes the loop again.
        self._on_the_way = False
        for news in self._waiting:
            if not news.done():
                news.set_result(None)
