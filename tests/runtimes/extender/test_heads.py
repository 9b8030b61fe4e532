"""Heads that were parsed before are not parsed again, and nothing else is different for it."""

import itertools
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayplan.runtimes.extender.connection import Connection
from bayplan.runtimes.extender.exchange import Request
from bayplan.runtimes.extender.heads import Heads
from bayplan.runtimes.extender.serve import Server
from tests.runtimes.extender.caller import Caller, names_request, request
from tests.runtimes.extender.obedient import serving

NODES = [f"node-{number}" for number in range(200)]


def remembered(head: bytes, **changes: Any) -> Heads:
    """Heads of a caller that has sent this one, and what the parser made of it."""
    lines = [line.partition(b": ") for line in head.split(b"\r\n")[1:] if line]
    headers = {name.decode().lower(): value.decode() for name, _, value in lines}
    parsed: dict[str, Any] = {"method": "POST", "path": "/filter", "keep_alive": True, **changes}
    heads = Heads()
    heads.remember(head, Request(None, headers=headers, limit=10**9, **parsed))  # type: ignore[arg-type]
    return heads


def head(length: object = 5, *more: str, name: str = "Content-Length") -> bytes:
    lines = ["POST /filter HTTP/1.1", "Host: x", f"{name}: {length}", "Accept: */*", *more]
    return "\r\n".join([*lines, "", ""]).encode()


def found(heads: Heads, data: bytes, count: int | None = None) -> tuple[int, int] | None:
    """The length of the body, and where it begins."""
    known = heads.find(bytearray(data), len(data) if count is None else count)
    return known and known[1:]


@pytest.mark.parametrize("length", [1, 5, 12_345, 10**11])
def test_another_length_is_read(length: int) -> None:
    sent = head(length)

    assert found(remembered(head()), sent + b"{}") == (length, len(sent))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(head(""), id="no number"),
        pytest.param(head("-5"), id="less than nothing"),
        pytest.param(head("5x"), id="half a number"),
        pytest.param(head("5 "), id="a space after it"),
        pytest.param(head("\u0665"), id="a digit of another script"),
        pytest.param(head(10**12), id="too large to be one"),
        pytest.param(head(5, "Expect: 100-continue"), id="one header more"),
        pytest.param(head(5, name="content-length"), id="another spelling"),
        pytest.param(head().replace(b"/filter", b"/bind"), id="another verb"),
        pytest.param(head().replace(b"HTTP/1.1", b"HTTP/1.0"), id="another version"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_anything_else_is_for_the_parser(other: bytes) -> None:
    assert found(remembered(head()), other + b"hello") is None


def test_a_head_that_has_not_come_as_a_whole_is_for_the_parser_whatever_lay_there_before() -> None:
    sent = head(7)

    assert found(remembered(head()), sent, count=len(sent) - 1) is None
    assert found(remembered(head()), sent, count=len(sent)) == (7, len(sent))


@pytest.mark.parametrize(
    ("sent", "changes"),
    [
        pytest.param(head(5, "Transfer-Encoding: chunked"), {}, id="chunked"),
        pytest.param(head(5, "Expect: 100-continue"), {}, id="expects something"),
        pytest.param(head(5, "Connection: close"), {}, id="says that it ends"),
        pytest.param(head(5, "Upgrade: h2c"), {}, id="offers another protocol"),
        pytest.param(head(), {"keep_alive": False}, id="ends"),
        pytest.param(head(), {"method": "GET"}, id="is no POST"),
        pytest.param(head(5, "Content-Length: 5"), {}, id="two lengths"),
        pytest.param(head(5, "X-Content-Length: 5"), {}, id="what looks like two lengths"),
        pytest.param(head("05"), {}, id="a zero before it"),
        pytest.param(head(5, f"Cookie: {'x' * 3000}"), {}, id="very long"),
        pytest.param(b"POST /filter HTTP/1.1\r\nHost: x\r\n\r\n", {}, id="no length"),
    ],
)
def test_what_is_special_is_parsed_each_time(sent: bytes, changes: dict[str, Any]) -> None:
    assert found(remembered(sent, **changes), sent) is None


def test_a_few_are_remembered() -> None:
    heads = Heads()
    sent = [head().replace(b"/filter", f"/{number}".encode()) for number in range(6)]
    for each in [*sent, sent[-1]]:
        path = each.split()[1].decode()
        known = Request(
            None,  # type: ignore[arg-type]
            method="POST",
            path=path,
            headers={"content-length": "5"},
            limit=1,
            keep_alive=True,
        )
        heads.remember(each, known)

    assert [found(heads, each) is not None for each in sent] == [False, False, True, True, True, True]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path, view=NODES) as running:
        yield running


async def test_the_parser_is_asked_once_for_each_verb(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = []
    feed = Connection._feed

    def fed(self: Connection, data: memoryview) -> None:
        parsed.append(bytes(data[:20]).split()[1].decode())
        feed(self, data)

    monkeypatch.setattr(Connection, "_feed", fed)
    async with await Caller.connect(server) as caller:
        for count in (1, 7, 100, 200):
            for verb in ("filter", "prioritize"):
                await caller.post(verb, names_request(NODES[:count]))

    assert parsed == ["/filter", "/prioritize"]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    counts=st.lists(st.integers(0, 200), min_size=1, max_size=6),
    cuts=st.lists(st.integers(0, 20_000), max_size=10),
)
async def test_requests_of_any_length_cut_anywhere_are_answered_in_order(
    server: Server, counts: list[int], cuts: list[int]
) -> None:
    sent = b"".join(request("filter", names_request(NODES[:count])) for count in counts)
    places = [0, *sorted(cut for cut in cuts if cut < len(sent)), len(sent)]
    async with await Caller.connect(server) as caller:
        for start, end in itertools.pairwise(places):
            await caller.send(sent[start:end])
        answers = [(await caller.reply()).json["NodeNames"] for _ in counts]

    assert answers == [NODES[:count] for count in counts]


async def test_headers_of_a_known_head_are_those_of_this_request(server: Server) -> None:
    body = json.dumps(names_request(NODES)).encode()
    async with await Caller.connect(server) as caller:
        await caller.post("filter", body)
        broken = await caller.post("filter", body[:-2])
        after = await caller.post("filter", body)

    assert "ExtenderArgs" in broken.headers["bayplan-error"]
    assert after.json["NodeNames"] == NODES
