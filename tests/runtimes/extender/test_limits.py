"""Callers that send too much, too slowly or too often are bounded; the others are served meanwhile."""

import asyncio
import contextlib
import json
import time
import zlib
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Any

import pytest

from bayplan.runtimes.extender import verb_server
from bayplan.runtimes.extender.serve import Server
from bayplan.state.view import FixedView
from bayplan.testing import make_cluster
from tests.runtimes.extender.caller import (
    Caller,
    ask,
    look,
    make_node,
    make_pod,
    metric,
    names_request,
    nodes_request,
    request,
)
from tests.runtimes.extender.obedient import serving

NODES = ["node-0", "node-1", "node-2"]
LIMIT = 100_000
CHUNKED = b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


@contextlib.asynccontextmanager
async def limited(folder: Path, **limits: Any) -> AsyncIterator[Server]:
    async with serving(folder, view=NODES, limits=limits) as server:
        yield server


async def until(condition: Any, *, what: str) -> None:
    """Wait for an asynchronous condition."""
    deadline = time.monotonic() + 10
    while not await condition():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.01)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(request("filter", b"x" * (LIMIT + 1)), id="with a length"),
        pytest.param(CHUNKED + chunk(b"x" * (LIMIT + 1)) + b"0\r\n\r\n", id="in one chunk"),
        pytest.param(CHUNKED + chunk(b"x" * 999) * 150 + b"0\r\n\r\n", id="in many chunks"),
        pytest.param(request("filter", b"x" * LIMIT * 4), id="just drained"),
    ],
)
async def test_a_body_over_the_limit_is_drained_and_told_what_to_do(tmp_path: Path, sent: bytes) -> None:
    async with limited(tmp_path, maxBodyBytes=LIMIT) as server, await Caller.connect(server) as caller:
        await caller.send(sent)
        answer = await caller.reply()
        again = await caller.post("filter", names_request(NODES))
        counted = await metric(server, "bayplan_requests_total", verb="filter", result="invalid")

    assert answer.status == 200
    assert "extender.limits.maxBodyBytes" in answer.json["Error"]
    assert again.json["NodeNames"] == NODES
    assert counted == 1


async def test_a_request_right_behind_one_over_the_limit_has_its_answer(tmp_path: Path) -> None:
    behind = request("filter", json.dumps(names_request(NODES)).encode())
    large = request("filter", b"x" * (LIMIT + 1))
    limits = {"maxBodyBytes": LIMIT, "bodyTimeout": "2s"}
    async with limited(tmp_path, **limits) as server, await Caller.connect(server) as caller:
        await caller.send(large[:-1000])
        # By the time that another caller is answered, all but the end of it was read.
        await ask(server, "filter", names_request(NODES))
        await caller.send(large[-1000:] + behind)
        refused, answered = await caller.reply(), await caller.reply()

    assert "extender.limits.maxBodyBytes" in refused.json["Error"]
    assert answered.json["NodeNames"] == NODES


async def test_a_body_exactly_at_the_limit_is_read(tmp_path: Path) -> None:
    body = json.dumps(names_request(NODES)).encode()
    async with limited(tmp_path, maxBodyBytes=len(body)) as server:
        assert (await ask(server, "filter", body)).json["NodeNames"] == NODES
        assert (await ask(server, "filter", body + b" ")).json["Error"]


@pytest.mark.parametrize("kind", ["with a length", "chunked"])
async def test_a_body_far_over_the_limit_costs_the_connection(tmp_path: Path, kind: str) -> None:
    limits = {"maxBodyBytes": 1000, "bodyTimeout": "1s"}
    async with limited(tmp_path, **limits) as server, await Caller.connect(server) as caller:
        if kind == "chunked":
            await caller.send(CHUNKED + chunk(b"x" * 50_000))
        else:
            await caller.send(
                request("filter", b"", headers={"Content-Length": "1000000000000"}) + b"x" * 50_000
            )
        answer = await caller.reply()
        assert "extender.limits.maxBodyBytes" in answer.json["Error"]
        assert answer.headers["connection"] == "close"
        assert await caller.hung_up()
        assert (await ask(server, "filter", names_request(NODES))).json["NodeNames"] == NODES


async def test_headers_byte_by_byte_are_cut_off_and_others_served_meanwhile(tmp_path: Path) -> None:
    async with limited(tmp_path, headerTimeout="500ms") as server, await Caller.connect(server) as slow:
        start = time.monotonic()
        cut = asyncio.create_task(slow.hung_up())
        served = 0
        with contextlib.suppress(ConnectionError):
            for byte in b"POST /filter HTTP/1.1\r\nX-Slow: " + b"x" * 1000:
                await slow.send(bytes([byte]))
                assert (await ask(server, "filter", names_request(NODES))).status == 200
                served += 1
                if cut.done():
                    break
        assert await cut
        took = time.monotonic() - start

    assert 0.4 < took < 3
    assert served > 5


async def test_a_body_that_does_not_come_is_answered_for_and_the_connection_closed(tmp_path: Path) -> None:
    async with limited(tmp_path, bodyTimeout="300ms") as server, await Caller.connect(server) as slow:
        await slow.send(request("filter", names_request(NODES))[:-5])
        assert (await ask(server, "filter", names_request(NODES))).status == 200
        answer = await slow.reply()

        assert answer.status == 200
        assert "did not arrive" in answer.json["Error"]
        assert answer.headers["connection"] == "close"


async def test_slow_bodies_are_no_overload(tmp_path: Path) -> None:
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(limited(tmp_path, maxInFlight=2, bodyTimeout="20s"))
        for _ in range(10):
            slow = await stack.enter_async_context(await Caller.connect(server))
            await slow.send(request("filter", names_request(NODES))[:-5])
        await until(lambda: _in_flight(server, 10), what="ten bodies under way")

        answer = await ask(server, "filter", names_request(NODES))

    assert answer.json["NodeNames"] == NODES


async def _in_flight(server: Server, wanted: int) -> bool:
    return await metric(server, "bayplan_requests_in_flight") == wanted


async def test_two_slow_large_bodies_make_the_third_be_told_and_leave_small_ones_alone(
    tmp_path: Path,
) -> None:
    large = request("filter", b"", headers={"Content-Length": "2000000"})
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(limited(tmp_path, requestTimeout="300ms", bodyTimeout="20s"))
        for _ in range(2):
            slow = await stack.enter_async_context(await Caller.connect(server))
            await slow.send(large)
        await until(lambda: _in_flight(server, 2), what="two large bodies under way")
        third = await stack.enter_async_context(await Caller.connect(server))
        await third.send(large)

        assert "nodeCacheCapable: true" in (await third.reply()).json["Error"]
        assert (await ask(server, "filter", names_request(NODES))).json["NodeNames"] == NODES


async def test_over_the_in_flight_cap_everybody_is_answered_and_some_are_told(tmp_path: Path) -> None:
    busy = names_request(NODES, pod=make_pod(do="sleep", seconds="0.3"))
    async with limited(tmp_path, maxInFlight=3) as server:
        answers = await asyncio.gather(*(ask(server, "filter", busy) for _ in range(12)))
        overload = await metric(server, "bayplan_requests_total", verb="filter", result="overload")
        fine = await metric(server, "bayplan_requests_total", verb="filter", result="ok")

        assert all(answer.status == 200 for answer in answers)
        told = [answer for answer in answers if answer.json["Error"]]
        assert all("extender.limits.maxInFlight" in answer.json["Error"] for answer in told)
        assert (len(told), len(answers) - len(told)) == (overload, fine) == (9, 3)
        assert (await ask(server, "filter", names_request(NODES))).json["NodeNames"] == NODES


async def test_over_the_connection_cap_new_ones_are_closed_and_old_ones_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(limited(tmp_path, maxConnections=5))
        # All at once: the cap must hold for a burst that is accepted in one turn of the loop.
        callers = await asyncio.gather(*(Caller.connect(server) for _ in range(40)))
        for caller in callers:
            await stack.enter_async_context(caller)
        hung_up = await asyncio.gather(*(caller.hung_up(patience_seconds=0.5) for caller in callers))
        inside = [caller for caller, gone in zip(callers, hung_up, strict=True) if not gone]

        assert len(inside) == 5
        assert "extender.limits.maxConnections" in caplog.text
        for caller in inside:
            assert (await caller.post("filter", names_request(NODES))).json["NodeNames"] == NODES
        assert (await look(server, "/livez")).status == 200
        assert await metric(server, "bayplan_connections") == 5
        inside[0].writer.transport.abort()
        await until(lambda: _has_connections(server, 4), what="one place is free")
        assert (await ask(server, "filter", names_request(NODES))).json["NodeNames"] == NODES


@pytest.mark.parametrize("sent", [b"", b"GET /livez HTTP/1.1\r\nHost"], ids=["nothing", "half a head"])
@pytest.mark.parametrize("port", ["verbs", "ops"])
async def test_those_who_never_ask_do_not_keep_others_out(tmp_path: Path, port: str, sent: bytes) -> None:
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(limited(tmp_path, maxConnections=3))
        assert server.ops_listener is not None
        address = server.listener.address if port == "verbs" else server.ops_listener.address
        usual = await stack.enter_async_context(await Caller.connect(address))
        await usual.send(request("readyz", b"", method="GET"))
        await usual.reply()
        for _ in range(20):
            silent = await stack.enter_async_context(await Caller.connect(address))
            await silent.send(sent)

        async with await Caller.connect(address) as newcomer:
            await newcomer.send(request("readyz", b"", method="GET"))
            assert await newcomer.reply()
            # Who asked before is the last to go.
            await usual.send(request("readyz", b"", method="GET"))
            assert await usual.reply()


async def test_who_waits_for_its_answer_is_not_closed_for_others(tmp_path: Path) -> None:
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(limited(tmp_path, maxConnections=2))
        waiting = [await stack.enter_async_context(await Caller.connect(server)) for _ in range(2)]
        slow = make_pod("slow", do="sleep", seconds="0.5")
        for caller in waiting:
            await caller.send(request("filter", names_request(NODES, pod=slow)))
        await asyncio.sleep(0.1)

        async with await Caller.connect(server) as newcomer:
            assert await newcomer.hung_up()

        for caller in waiting:
            assert (await caller.reply()).json["NodeNames"] == NODES


async def _has_connections(server: Server, count: int) -> bool:
    return await metric(server, "bayplan_connections") == count


async def test_a_caller_that_never_reads_its_answers_is_cut_off(tmp_path: Path) -> None:
    large = nodes_request([make_node(f"n-{number}", fill=10_000) for number in range(1000)])
    async with limited(tmp_path, bodyTimeout="1s") as server, await Caller.connect(server) as caller:
        caller.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await caller.send(request("filter", large))
        await until(lambda: _has_connections(server, 1), what="the caller is connected")

        await until(lambda: _has_connections(server, 0), what="the caller is cut off")

        assert (await ask(server, "filter", names_request(NODES))).json["NodeNames"] == NODES


async def test_answers_that_nobody_takes_are_bounded_altogether(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verb_server, "UNSENT_BYTES", 30_000_000)
    large = request("filter", nodes_request([make_node(f"n-{n}", fill=20_000) for n in range(1000)]))
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(limited(tmp_path))
        callers = []
        for _ in range(5):
            caller = await stack.enter_async_context(await Caller.connect(server))
            caller.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await caller.send(large)
            callers.append(caller)

        await until(lambda: _has_connections(server, 2), what="those that read nothing for longest are gone")

        callers[-1].writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert len((await callers[-1].reply()).json["Nodes"]["items"]) == 1000


@pytest.mark.parametrize("size", [900_000, 50_000])
async def test_bodies_are_not_read_long_before_their_turn(tmp_path: Path, size: int) -> None:
    """A caller that sends a lot in one go would else have all of that in our memory."""
    now = tmp_path / "now"
    waits = request("filter", names_request(NODES, pod=make_pod("first", do="wait", file=str(now))))
    padded = request("filter", json.dumps(names_request(NODES)).encode() + b" " * size)
    count = 36_000_000 // size
    async with limited(tmp_path, policyTimeout="8s") as server, await Caller.connect(server) as caller:
        caller.writer.transport.set_write_buffer_limits(high=10**9)
        await caller.send(waits + padded * count)
        await asyncio.sleep(0.5)

        # The rest is what the system keeps on both sides.
        taken = count * len(padded) - caller.writer.transport.get_write_buffer_size()
        assert taken < 13_000_000
        now.touch()
        for _ in range(count + 1):
            assert (await caller.reply()).json["NodeNames"] == NODES


async def test_a_compressed_bomb_is_not_unpacked(tmp_path: Path) -> None:
    bomb = zlib.compress(b" " * 50_000_000)
    async with limited(tmp_path, maxBodyBytes=1_000_000) as server, await Caller.connect(server) as caller:
        await caller.send(request("filter", bomb, headers={"Content-Encoding": "deflate"}))
        answer = await caller.reply()

    assert "JSON" in answer.json["Error"]


async def test_a_slow_policy_is_not_asked_again_when_its_answer_would_come_too_late(tmp_path: Path) -> None:
    """The view is behind at each look; kube-scheduler reads an answer of its time only."""

    class Behind(FixedView):
        looks = 0

        async def read(self, names: Collection[str]) -> bool:
            self.looks += 1
            return True

    view = Behind(make_cluster(NODES))
    slow = make_pod(do="sleep", seconds="2.1")
    async with limited(tmp_path, requestTimeout="4s", policyTimeout="3s") as server:
        server.app.view = view
        answer = await ask(server, "filter", names_request([*NODES, "unheard-of"], pod=slow))

    assert view.looks == 0
    assert answer.json["NodeNames"] == NODES


async def test_a_slow_policy_is_not_asked_again_when_the_view_took_the_rest_of_the_time(
    tmp_path: Path,
) -> None:
    """The first look would have had its time twice, but a node was read in between, and that took its own."""

    class Slow(FixedView):
        looks = 0

        async def read(self, names: Collection[str]) -> bool:
            self.looks += 1
            await asyncio.sleep(2.2)
            return True

    view = Slow(make_cluster(NODES))
    slow = make_pod(do="sleep", seconds="1")
    async with limited(tmp_path, requestTimeout="4s", policyTimeout="3s") as server:
        server.app.view = view
        answer = await ask(server, "filter", names_request([*NODES, "unheard-of"], pod=slow))

    assert view.looks == 1
    assert answer.json["Error"] == ""
    assert answer.json["NodeNames"] == NODES


async def test_an_idle_connection_is_closed_when_its_time_is_over_and_not_before(tmp_path: Path) -> None:
    async with (
        limited(tmp_path, keepAlive="1s", headerTimeout="100ms") as server,
        await Caller.connect(server) as never_used,
        await Caller.connect(server) as used,
    ):
        await used.post("filter", names_request(NODES))
        assert not await never_used.hung_up(patience_seconds=0.5)
        assert await never_used.hung_up()
        assert await used.hung_up()
