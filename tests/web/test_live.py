"""News over server-sent events: it comes, it beats, it is for a bounded number, and the slow are let go."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from bayplan.engine.journal import Journal
from bayplan.web.live import Live
from tests.web.decided import cluster_of, filtered, written
from tests.web.looking import Looking, looking

CLUSTER = cluster_of(6)
SECONDS = 10


async def events(response: aiohttp.ClientResponse) -> AsyncIterator[tuple[str, str]]:
    """Name and data of each event."""
    name = ""
    async for line in response.content:
        key, _, value = line.decode().rstrip("\n").partition(": ")
        name = value if key == "event" else name
        if key == "data":
            yield name, value


async def next_of(stream: AsyncIterator[tuple[str, str]], wanted: str) -> str:
    """The data of the next event of that name."""
    async with asyncio.timeout(SECONDS):
        async for name, data in stream:
            if name == wanted:
                return data
    raise AssertionError(f"the stream ended before an event {wanted!r}")


async def until_clients(page: Looking, count: int) -> None:
    async with asyncio.timeout(SECONDS):
        while page.app.live.clients != count:  # noqa: ASYNC110 - it is counted, not told
            await asyncio.sleep(0.01)


def told(page: Looking, **options: Any) -> None:
    """Other times for the page's events."""
    fresh = Live(**options)
    entries = page.app._sight.journal.on_entry
    entries[entries.index(page.app.live.add)] = fresh.add
    page.app.live = fresh


async def test_a_new_decision_is_told_from_another_thread_once_for_a_burst() -> None:
    journal = Journal()
    async with looking(journal) as page, page.session.get(page.address + "/api/events") as response:
        stream = events(response)
        await next_of(stream, "hello")

        writer = threading.Thread(target=written, args=(journal, CLUSTER), kwargs={"pods": 5})
        writer.start()

        assert response.headers["Content-Type"] == "text/event-stream"
        assert await next_of(stream, "decisions") == "10"
        writer.join()


async def test_entries_wake_the_loop_only_if_a_page_waits_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    journal, wakes = Journal(), 0
    loop = asyncio.get_running_loop()
    wake = loop.call_soon_threadsafe

    def counted(*args: Any, **kwargs: Any) -> asyncio.Handle:
        nonlocal wakes
        wakes += 1
        return wake(*args, **kwargs)

    monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
    async with looking(journal) as page:
        told(page, gather_seconds=0.05)
        written(journal, CLUSTER, pods=1)
        assert wakes == 0, "nobody listens"
        async with page.session.get(page.address + "/api/events") as response:
            stream = events(response)
            assert await next_of(stream, "hello") == "2"
            async with asyncio.timeout(SECONDS):
                while not page.app.live._waiting:  # noqa: ASYNC110 - it is looked at, not told
                    await asyncio.sleep(0.001)

            written(journal, CLUSTER, pods=3)

            assert await next_of(stream, "decisions") == "8"
            assert wakes == 1


async def test_a_quiet_stream_ticks_so_that_nobody_takes_it_for_dead() -> None:
    async with looking(Journal()) as page:
        told(page, tick_seconds=0.01)
        async with page.session.get(page.address + "/api/events") as response:
            stream = events(response)

            assert await next_of(stream, "tick") == "0"
            assert await next_of(stream, "tick") == "0"


async def test_one_listener_too_many_is_asked_to_come_later() -> None:
    async with looking(Journal()) as page:
        told(page, max_clients=2, tick_seconds=0.05)
        url = page.address + "/api/events"
        async with page.session.get(url), page.session.get(url):
            status, text, headers = await page.get("/api/events")

            assert (status, headers["Retry-After"]) == (503, "10")
            assert text == "2 pages are open already; close one"
        await until_clients(page, 0)
        async with page.session.get(url) as response:
            assert response.status == 200


async def test_who_hangs_up_is_forgotten() -> None:
    async with looking(Journal()) as page:
        told(page, tick_seconds=0.01)
        async with page.session.get(page.address + "/api/events"):
            await until_clients(page, 1)
        await until_clients(page, 0)


async def test_who_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    async with looking(Journal()) as page:
        told(page, tick_seconds=0.001, write_seconds=0.2)
        # As much as no socket takes in at once: each word of a stream is small, and patience long.
        monkeypatch.setattr("bayplan.web.live._RETRY_MILLISECONDS", "9" * 20_000_000)
        reader, writer = await asyncio.open_connection(*page.address.removeprefix("http://").split(":"))
        writer.write(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await writer.drain()
        reader._transport.pause_reading()  # type: ignore[attr-defined]

        await until_clients(page, 1)
        await until_clients(page, 0)
        writer.close()


async def test_asking_for_headers_alone_waits_for_nothing() -> None:
    async with looking(Journal()) as page, page.session.head(page.address + "/api/events") as response:
        assert response.status == 200
        assert response.headers["Content-Type"] == "text/event-stream"
        assert page.app.live.clients == 0


async def test_who_comes_after_the_end_is_told_so() -> None:
    async with looking(Journal()) as page:
        page.app.live.end()

        for path in ("/", "/api/events", "/api/decisions"):
            assert (await page.get(path))[0] == 503


@pytest.mark.alone
async def test_the_end_of_the_server_ends_every_stream_at_once() -> None:
    journal = Journal()
    async with looking(journal) as page, page.session.get(page.address + "/api/events") as response:
        await next_of(events(response), "hello")

        page.app.live.end()

        async with asyncio.timeout(2):
            assert b"event: decisions" not in await response.read()


async def test_decisions_go_on_when_the_loop_of_the_page_has_ended() -> None:
    ended: list[Live] = []

    def serve_and_end() -> None:
        async def serve() -> None:
            live = Live()
            live._waiting.add(asyncio.get_running_loop().create_future())
            ended.append(live)

        asyncio.run(serve())

    thread = threading.Thread(target=serve_and_end)
    thread.start()
    thread.join()
    journal = Journal(on_entry=[ended[0].add])

    assert journal.write("filter", filtered(CLUSTER), generation=1).number == 1
