"""HTTP as callers speak it: in pieces, in haste, in old versions; one answer for each request, in order."""

import asyncio
import itertools
import json
import logging
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayplan.runtimes.extender.exchange import Request, Response
from bayplan.runtimes.extender.serve import Server
from tests.runtimes.extender.caller import Caller, ask, make_node, names_request, nodes_request, request
from tests.runtimes.extender.obedient import serving
from tests.runtimes.extender.test_answer import Asker, asker

NODES = ["node-0", "node-1", "node-2"]
BODY = json.dumps(names_request(NODES)).encode()
CHUNKS = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (BODY[:7], BODY[7:])) + b"0\r\n\r\n"
CHUNKED = b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKS
LARGE = nodes_request([make_node(f"node-{number}", fill=400_000) for number in range(3)])


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path, view=NODES) as running:
        yield running


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    with asker(tmp_path_factory.mktemp("pieces")) as running:
        yield running


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cuts=st.lists(st.integers(0, 2000), max_size=12), kinds=st.lists(st.booleans(), min_size=1, max_size=4)
)
def test_it_does_not_matter_where_the_bytes_are_cut(known: Asker, cuts: list[int], kinds: list[bool]) -> None:
    sent = b"".join(CHUNKED if chunked else request("filter", BODY) for chunked in kinds)
    places = [0, *sorted(cut for cut in cuts if cut < len(sent)), len(sent)]

    async def all_of_it() -> list[list[str]]:
        async with await Caller.connect(known.server) as caller:
            for start, end in itertools.pairwise(places):
                await caller.send(sent[start:end])
                await asyncio.sleep(0)
            return [(await caller.reply()).json["NodeNames"] for _ in kinds]

    assert known.run(all_of_it()) == [NODES] * len(kinds)


async def test_a_large_body_is_read_and_echoed_and_the_connection_lives_on(server: Server) -> None:
    async with await Caller.connect(server) as caller:
        answers = [await caller.post("filter", LARGE) for _ in range(3)]
        small = await caller.post("filter", names_request(NODES))

    assert [answer.json["Nodes"] for answer in answers] == [LARGE["Nodes"]] * 3
    assert small.json["NodeNames"] == NODES


async def test_large_and_small_requests_in_one_go_are_answered_in_order(server: Server) -> None:
    async with await Caller.connect(server) as caller:
        sending = asyncio.create_task(
            caller.send(
                request("filter", BODY) + request("filter", LARGE) + CHUNKED + request("filter", LARGE)
            )
        )
        answers = [(await caller.reply()).json for _ in range(4)]
        await sending

    assert [answer["NodeNames"] for answer in answers] == [NODES, None, NODES, None]
    assert answers[1]["Nodes"] == answers[3]["Nodes"] == LARGE["Nodes"]


async def test_who_asks_whether_to_go_on_is_told_to(server: Server) -> None:
    async with await Caller.connect(server) as caller:
        head, _, body = request("filter", BODY, headers={"Expect": "100-continue"}).partition(b"\r\n\r\n")
        await caller.send(head + b"\r\n\r\n")
        async with asyncio.timeout(10):
            told = await caller.reader.readuntil(b"\r\n\r\n")
        await caller.send(body)
        answer = await caller.reply()

    assert told == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert answer.json["NodeNames"] == NODES


async def test_garbage_after_a_request_is_told_after_its_answer(server: Server) -> None:
    async with await Caller.connect(server) as caller:
        await caller.send(request("filter", BODY) + b"GARBAGE\r\n\r\n")
        first, second = await caller.reply(), await caller.reply()
        assert await caller.hung_up()

    assert (first.status, first.json["NodeNames"], second.status) == (200, NODES, 400)


async def test_an_offer_of_another_protocol_is_passed_over(server: Server) -> None:
    offer = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABk"}
    async with await Caller.connect(server) as caller:
        await caller.send(request("filter", BODY, headers=offer))
        answer = await caller.reply()
        assert await caller.hung_up()

    assert answer.json["NodeNames"] == NODES


async def test_a_caller_of_the_first_version_is_answered_and_let_go(server: Server) -> None:
    async with await Caller.connect(server) as caller:
        await caller.send(request("filter", BODY).replace(b"HTTP/1.1", b"HTTP/1.0"))
        answer = await caller.reply()
        assert await caller.hung_up()

    assert (answer.json["NodeNames"], answer.headers["connection"]) == (NODES, "close")


async def test_a_caller_that_wants_to_end_it_is_answered_and_let_go(server: Server) -> None:
    async with await Caller.connect(server) as caller:
        await caller.send(request("filter", BODY, headers={"Connection": "close"}))
        assert (await caller.reply()).json["NodeNames"] == NODES
        assert await caller.hung_up()


async def test_head_has_no_body(server: Server) -> None:
    async with await Caller.connect(server) as caller:
        await caller.send(request("filter", b"", method="HEAD") + request("filter", BODY))
        async with asyncio.timeout(10):
            head = await caller.reader.readuntil(b"\r\n\r\n")
        answer = await caller.reply()

    assert head.startswith(b"HTTP/1.1 405 ")
    assert answer.json["NodeNames"] == NODES


async def test_a_query_is_no_part_of_the_verb(server: Server) -> None:
    assert (await ask(server, "filter?timeout=5s", BODY)).json["NodeNames"] == NODES


async def test_all_of_a_url_leads_to_its_verb(server: Server) -> None:
    """RFC 9112, 3.2.2: a server has to take it."""
    whole = request("filter", BODY).replace(b" /filter ", b" http://extender:8888/filter?timeout=5s ")
    async with await Caller.connect(server) as caller:
        await caller.send(whole)
        assert (await caller.reply()).json["NodeNames"] == NODES


@pytest.mark.parametrize("size", [70_000, 2_000_000])
async def test_a_head_without_end_is_cut_off_however_it_comes(server: Server, size: int) -> None:
    async with await Caller.connect(server) as caller:
        sending = asyncio.create_task(
            caller.send(b"POST /filter HTTP/1.1\r\nX: " + b"x" * size + b"\r\n\r\n")
        )
        answer = await caller.reply()
        sending.cancel()

    assert answer.status == 400
    assert (await ask(server, "filter", BODY)).json["NodeNames"] == NODES


@pytest.mark.parametrize("end", [b"0\r\nX: ", b"0\r\nX", b"0;x=", b"1;x="])
async def test_what_never_ends_after_the_data_is_cut_off(server: Server, end: bytes) -> None:
    """The parser keeps an incomplete header of a trailer: without a bound, the memory of the server is it."""
    begun = CHUNKED.removesuffix(b"0\r\n\r\n") + end
    async with await Caller.connect(server) as caller:
        sending = asyncio.create_task(caller.send(begun + b"x" * 4_000_000))
        answer = await caller.reply()
        sending.cancel()

    assert answer.status == 200
    assert "broke off" in answer.json["Error"]
    assert (await ask(server, "filter", BODY)).json["NodeNames"] == NODES


async def test_a_trailer_is_passed_over(server: Server) -> None:
    async with await Caller.connect(server) as caller:
        for _ in range(2):
            await caller.send(CHUNKED.removesuffix(b"\r\n") + b"Checksum: 1\r\n\r\n")
            assert (await caller.reply()).json["NodeNames"] == NODES


async def test_a_trailer_is_no_part_of_the_head(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """RFC 9110, 6.5.1: its fields must not be merged, or they would replace what a proxy has checked."""
    asked: list[Request] = []
    answer = server.app._read_and_answer

    async def noted(request: Request, verb: str | None) -> Response:
        asked.append(request)
        return await answer(request, verb)

    monkeypatch.setattr(server.app, "_read_and_answer", noted)
    async with await Caller.connect(server) as caller:
        await caller.send(CHUNKED.removesuffix(b"\r\n") + b"Host: y\r\nTraceparent: 1\r\n\r\n")
        assert (await caller.reply()).json["NodeNames"] == NODES

    assert asked[0].headers == {"host": "x", "transfer-encoding": "chunked"}


async def test_a_trailer_of_too_many_fields_is_told_as_one(server: Server) -> None:
    fields = b"".join(b"X-%d: %s\r\n" % (number, b"x" * 100) for number in range(1000))
    async with await Caller.connect(server) as caller:
        await caller.send(CHUNKED.removesuffix(b"\r\n") + fields + b"\r\n")
        answer = await caller.reply()

    assert "broke off: more than 65536 bytes of the body are neither data nor its end" in answer.json["Error"]


async def test_a_head_of_too_many_headers_is_told_in_the_log(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    headers = {f"X-{number}": "x" * 100 for number in range(1000)}
    async with await Caller.connect(server) as caller:
        await caller.send(request("filter", BODY, headers=headers))
        assert (await caller.reply()).status == 400

    assert "sent no HTTP: the head is longer than 65536 bytes" in caplog.text


def test_chunks_of_a_few_bytes_take_the_memory_of_their_bytes() -> None:
    class Line:
        def go_on(self, request: Request) -> None: ...

        def certificate(self) -> None: ...

    tracemalloc.start()
    try:
        asked = Request(
            Line(),
            method="POST",
            path="/filter",
            headers={"transfer-encoding": "chunked"},
            limit=1_000_000,
            keep_alive=True,
        )
        for number in range(100_000):
            asked.take(b"%03d" % (number % 1000))
        asked.ended()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert held < 500_000
    assert asked.whole == b"".join(b"%03d" % number for number in range(1000)) * 100


async def test_every_answer_says_when_it_was_made(server: Server) -> None:
    answer = await ask(server, "filter", BODY)

    assert answer.headers["date"].endswith(" GMT")
    assert answer.headers["content-type"] == "application/json"


class Raising(logging.Handler):
    """A log handler of a policy, and whoever writes a line has its errors."""

    def emit(self, record: logging.LogRecord) -> None:
        raise OSError("the log cannot be reached")


async def test_a_log_that_fails_leaves_nobody_without_an_answer(server: Server) -> None:
    handler = Raising()
    logging.getLogger().addHandler(handler)
    try:
        filtered = await ask(server, "filter", b"no JSON at all")
        scored = await ask(server, "prioritize", b"no JSON at all")
    finally:
        logging.getLogger().removeHandler(handler)

    assert (filtered.status, filtered.json["Error"]) == (200, "internal error: OSError")
    assert (scored.status, scored.json) == (200, [])
    assert (await ask(server, "filter", BODY)).json["NodeNames"] == NODES


async def test_a_log_that_fails_costs_no_pod_its_nodes_while_only_observing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    handler = Raising()
    async with serving(tmp_path, observe=True) as server:
        monkeypatch.setattr(server.app, "_judge", broken)
        logging.getLogger().addHandler(handler)
        try:
            answer = await ask(server, "filter", BODY)
        finally:
            logging.getLogger().removeHandler(handler)

    assert (answer.status, answer.json["Error"]) == (200, "")
    assert answer.json["NodeNames"] == NODES
