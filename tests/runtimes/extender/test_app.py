"""Whatever comes over HTTP gets an answer that kube-scheduler can read, and the server lives on."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bayplan.runtimes.extender.serve import Server
from tests.runtimes.extender.caller import (
    Caller,
    Reply,
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

CAPTURES = Path(__file__).parents[2] / "contract" / "captures"
RECORDED = {
    f"{file.parent.name} {file.name.split('.')[0]}": file.read_bytes()
    for file in sorted(CAPTURES.glob("*/*.request.json"))
}
NODES = ["node-0", "node-1", "node-2"]
EMPTY = {"prioritize": [], "preempt": {"NodeNameToMetaVictims": {}}}
verbs = pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt", "bind"])


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path, view=NODES) as running:
        yield running


async def still_fine(server: Server) -> None:
    """The next honest request is answered as if nothing had been."""
    answer = await ask(server, "filter", names_request(NODES))
    assert (answer.status, answer.json["NodeNames"], answer.json["Error"]) == (200, NODES, "")


def refused(verb: str, answer: Reply) -> str:
    """The text of an answer that says no in the verb's own form."""
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("application/json")
    if verb in EMPTY:
        assert answer.json == EMPTY[verb]
    else:
        assert answer.json["Error"]
    return answer.headers["bayplan-error"]


@pytest.mark.parametrize("capture", RECORDED)
async def test_what_kube_scheduler_sent_is_answered_with_200_and_json(server: Server, capture: str) -> None:
    verb = capture.split()[1].split("-", maxsplit=1)[0]

    answer = await ask(server, verb, RECORDED[capture])

    assert answer.status == 200
    assert answer.headers["content-length"] == str(len(answer.body))
    sent = json.loads(RECORDED[capture])
    if verb == "filter" and sent["Nodes"]:
        assert answer.json["Nodes"] == sent["Nodes"]
    elif verb == "filter":
        assert answer.json["NodeNames"] == sent["NodeNames"]
    elif verb == "prioritize":
        assert sorted(line["Host"] for line in answer.json) == NODES
        assert all(type(line["Score"]) is int for line in answer.json)
    elif verb == "bind":
        assert "needs the API server" in answer.json["Error"]
    else:
        assert set(answer.json) == {"NodeNameToMetaVictims"}


@verbs
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b" \n", id="only space"),
        pytest.param(b"\x00\xff\xfe garbage", id="garbage"),
        pytest.param(b'{"Pod":{"metadata":{"name":"a"', id="broken off"),
        pytest.param(b"[" * 200_000, id="deep arrays"),
        pytest.param(b'{"Pod":' * 100_000, id="deep objects"),
        pytest.param(
            b'{"Pod":null,"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", id="deep in an unknown key"
        ),
        pytest.param(b"null", id="null"),
        pytest.param(b"7", id="a number"),
        pytest.param(b'"text"', id="a text"),
        pytest.param(b"[]", id="an array"),
        pytest.param(
            b'{"Pod":[],"Nodes":7,"NodeNames":{},"PodName":1,"NodeNameToVictims":3}', id="wrong types"
        ),
        pytest.param(b'{"Pod":{"metadata":{"name":"\xed\xa0\x80"}}}', id="half a surrogate pair"),
        pytest.param(gzip.compress(b'{"Pod":{}}'), id="gzip"),
    ],
)
async def test_bytes_that_are_no_request_are_refused_in_the_form_of_the_verb(
    server: Server, verb: str, body: bytes
) -> None:
    answer = await ask(server, verb, body)

    assert refused(verb, answer)
    assert await metric(server, "bayplan_requests_total", verb=verb, result="invalid") == 1
    await still_fine(server)


@verbs
async def test_null_everywhere_is_answered(server: Server, verb: str) -> None:
    nulls: dict[str, Any] = {
        "Pod": {"metadata": None, "spec": None, "status": None},
        "Nodes": None,
        "NodeNames": None,
    }
    if verb == "preempt":
        victims = {"Pods": None, "NumPDBViolations": None}
        nulls = {"Pod": {}, "NodeNameToVictims": None, "NodeNameToMetaVictims": {"a": None, "b": victims}}
    if verb == "bind":
        nulls = {"PodName": None, "PodNamespace": None, "PodUID": None, "Node": None}

    answer = await ask(server, verb, nulls)

    assert answer.status == 200
    expected: dict[str, Any] = {
        "filter": ([], ""),
        "prioritize": [],
        "preempt": {"NodeNameToMetaVictims": {}},
    }
    if verb == "filter":
        assert (answer.json["NodeNames"], answer.json["Error"]) == expected["filter"]
    elif verb == "bind":
        assert "ExtenderBindingArgs" in answer.json["Error"]
    else:
        assert answer.json == expected[verb]


async def test_no_nodes_are_no_problem(server: Server) -> None:
    by_name = await ask(server, "filter", names_request([]))
    in_full = await ask(server, "filter", nodes_request([]))
    scores = await ask(server, "prioritize", names_request([]))

    assert (by_name.json["NodeNames"], by_name.json["Error"]) == ([], "")
    assert (in_full.json["Nodes"], in_full.json["Error"]) == ({"metadata": {}, "items": []}, "")
    assert scores.json == []


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(names_request(["node-0", "node-1", "node-0"]), id="by name"),
        pytest.param(
            nodes_request([make_node("node-0"), make_node("node-1"), make_node("node-0")]), id="in full"
        ),
    ],
)
async def test_a_node_that_is_there_twice_is_named(server: Server, body: dict[str, Any]) -> None:
    answer = await ask(server, "filter", body)

    assert "'node-0' is there twice" in refused("filter", answer)
    assert refused("prioritize", await ask(server, "prioritize", body))


@pytest.mark.alone
@pytest.mark.parametrize("mode", ["by name", "in full"])
async def test_twenty_thousand_nodes_are_answered(tmp_path: Path, mode: str) -> None:
    many = [f"node-{number}" for number in range(20_000)]
    refuse = json.dumps(dict.fromkeys(many[::2], "even"))
    pod = make_pod(refuse=refuse)
    async with serving(tmp_path, view=many if mode == "by name" else NODES) as server:
        if mode == "by name":
            body = names_request(many, pod=pod)
        else:
            body = nodes_request([make_node(name) for name in many], pod=pod)

        answer = await ask(server, "filter", body)
        scores = await ask(server, "prioritize", body)

    assert answer.json["Error"] == ""
    passed = answer.json["NodeNames"] or [item["metadata"]["name"] for item in answer.json["Nodes"]["items"]]
    assert passed == many[1::2]
    assert list(answer.json["FailedAndUnresolvableNodes"]) == many[::2]
    assert [line["Host"] for line in scores.json] == many


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        pytest.param("/filtre", "did you mean 'filter'?", id="a typo"),
        pytest.param("/priorities", "did you mean 'prioritize'?", id="an old name"),
        pytest.param("/", "verbs are under /", id="no verb"),
        pytest.param("/other/filter", "verbs are under /", id="another prefix"),
    ],
)
async def test_an_unknown_verb_is_answered_with_the_nearest(server: Server, path: str, hint: str) -> None:
    answer = await ask(server, path, names_request(NODES))

    assert hint in refused("filter", answer)
    assert await metric(server, "bayplan_requests_total", verb="unknown", result="unknown-verb") == 1


async def test_a_trailing_slash_and_a_prefix_are_fine(tmp_path: Path) -> None:
    async with serving(tmp_path, view=NODES, path="/scheduler/v1/") as server:
        with_slash = await ask(server, "/scheduler/v1/filter/", names_request(NODES))
        without_prefix = await ask(server, "/filter", names_request(NODES))

    assert with_slash.json["NodeNames"] == NODES
    assert "verbs are under /scheduler/v1/" in without_prefix.json["Error"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        pytest.param("GET", "/filter", 405, id="GET on a verb"),
        pytest.param("PUT", "/bind", 405, id="PUT on a verb"),
        pytest.param("GET", "/", 404, id="a browser"),
        pytest.param("GET", "/metrics", 404, id="metrics on the wrong port"),
    ],
)
async def test_a_person_who_looks_is_told_what_is_here(
    server: Server, method: str, path: str, status: int
) -> None:
    async with await Caller.connect(server) as caller:
        await caller.send(request(path, b"", method=method))
        answer = await caller.reply()

    assert answer.status == status
    assert answer.json["Error"]
    assert answer.headers.get("allow") == ("POST" if status == 405 else None)


async def test_two_spellings_go_all_the_way_through(server: Server) -> None:
    pod = make_pod(refuse='{"node-1": "no"}')
    for body in (
        {"pod": pod, "nodenames": NODES},
        {"pod": pod, "nodeNames": NODES, "nodes": None},
        {"POD": pod, "NODENAMES": NODES, "from": "a tutorial"},
    ):
        answer = await ask(server, "filter", body)

        assert answer.json["NodeNames"] == ["node-0", "node-2"]
        assert answer.json["FailedAndUnresolvableNodes"] == {"node-1": "no"}


async def test_names_without_a_cluster_say_how_to_start_the_server(tmp_path: Path) -> None:
    async with serving(tmp_path, view=None) as server:
        answer = await ask(server, "filter", names_request(NODES))

    assert "--kubeconfig" in refused("filter", answer)


@pytest.mark.parametrize("text", ["\r\nX-Evil: 1", "\x00\x07", "grün 漢字 \ud83d", "x" * 5000, " "])
async def test_a_policy_may_raise_any_text_and_is_still_answered_for(server: Server, text: str) -> None:
    pod = make_pod(do="raise", text=text.encode(errors="replace").decode())

    answer = await ask(server, "filter", names_request(NODES, pod=pod))

    assert "policy 'obedient' failed: obedient.py:" in refused("filter", answer)
    assert "x-evil" not in answer.headers
    await still_fine(server)


@pytest.mark.parametrize("what", ["panic", "exit"])
async def test_what_is_no_exception_does_not_cost_a_thread(server: Server, what: str) -> None:
    pod = make_pod(do=what)

    answers = [await ask(server, "filter", names_request(NODES, pod=pod)) for _ in range(6)]

    assert all(refused("filter", answer) for answer in answers)
    await still_fine(server)


async def test_a_connection_is_used_again_and_stays_open_while_idle(server: Server) -> None:
    async with await Caller.connect(server) as caller:
        for _ in range(5):
            assert (await caller.post("filter", names_request(NODES))).status == 200
        assert not await caller.hung_up(patience_seconds=0.2)
        assert (await caller.post("prioritize", names_request(NODES))).status == 200

    assert await metric(server, "bayplan_requests_total", verb="filter", result="ok") == 5


async def test_bad_requests_do_not_cost_the_connection(server: Server) -> None:
    async with await Caller.connect(server) as caller:
        for body in (b"", b"garbage", names_request(["twice", "twice"])):
            assert (await caller.post("filter", body)).json["Error"]
        assert (await caller.post("nonsense", b"{}")).json["Error"]
        assert (await caller.post("filter", names_request(NODES))).json["NodeNames"] == NODES


async def test_pipelined_requests_are_answered_one_by_one_in_order(server: Server) -> None:
    bodies = [
        names_request(NODES, pod=make_pod(refuse=json.dumps({f"node-{n % 3}": "no"}))) for n in range(30)
    ]
    async with await Caller.connect(server) as caller:
        await caller.send(b"".join(request("filter", body) for body in bodies))
        answers = [await caller.reply() for _ in bodies]

    assert [list(a.json["FailedAndUnresolvableNodes"]) for a in answers] == [
        [f"node-{n % 3}"] for n in range(30)
    ]


async def test_a_caller_that_closed_its_half_gets_every_answer(server: Server) -> None:
    slow = make_pod(do="sleep", seconds="0.2")
    async with await Caller.connect(server) as caller:
        await caller.send(request("filter", names_request(NODES, pod=slow)) * 2)
        caller.writer.write_eof()
        first, second = await caller.reply(), await caller.reply()
        assert await caller.hung_up()

    assert first.json["NodeNames"] == second.json["NodeNames"] == NODES


async def test_a_caller_that_closes_in_the_middle_of_a_body_is_let_go(server: Server) -> None:
    async with await Caller.connect(server) as caller:
        await caller.send(request("filter", names_request(NODES))[:-10])
        caller.writer.write_eof()
        assert await caller.hung_up()

    await still_fine(server)


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 500, id="TLS on the plain port"
        ),
        pytest.param(b"GARBAGE\r\n\r\n", id="no HTTP"),
        pytest.param(b"POST /filter HTTP/1.1\r\nContent-Length: minus\r\n\r\n", id="no number"),
        pytest.param(
            b"POST /filter HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", id="a header without end"
        ),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", id="HTTP/2"),
        pytest.param(
            b"POST /filter HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            id="two lengths",
        ),
    ],
)
async def test_what_is_no_http_gets_400_and_a_short_line_in_the_log(
    server: Server, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(20):
        async with await Caller.connect(server) as caller:
            await caller.send(garbage)
            answer = await caller.reply()
            assert answer.status == 400
            assert answer.json["Error"]
            assert await caller.hung_up()

    assert [record.exc_info for record in caplog.records] == [None]
    await still_fine(server)


async def test_a_bad_chunk_is_answered_and_the_connection_closed(server: Server) -> None:
    head = b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with await Caller.connect(server) as caller:
        await caller.send(head + b"5\r\nhello\r\nnonsense\r\n")
        answer = await caller.reply()
        assert answer.status in (200, 400)
        assert answer.json["Error"]
        assert await caller.hung_up()

    await still_fine(server)


async def test_chunked_requests_are_read_like_others(server: Server) -> None:
    body = json.dumps(names_request(NODES)).encode()
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:20], body[20:])) + b"0\r\n\r\n"
    async with await Caller.connect(server) as caller:
        await caller.send(b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)
        answer = await caller.reply()

    assert answer.json["NodeNames"] == NODES
    assert answer.headers["content-length"] == str(len(answer.body))


async def test_many_callers_at_once_each_get_their_own_answer(server: Server) -> None:
    async def one(number: int) -> bool:
        name = NODES[number % 3]
        pod = make_pod(refuse=json.dumps({name: f"reason {number % 3}"}))
        answer = await ask(server, "filter", names_request(NODES, pod=pod))
        refusals: dict[str, str] = answer.json["FailedAndUnresolvableNodes"]
        return refusals == {name: f"reason {number % 3}"}

    assert all(await asyncio.gather(*(one(number) for number in range(60))))


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz", "/livez?verbose", "/metrics"])
async def test_the_other_port_shows_health_and_metrics(server: Server, path: str) -> None:
    assert (await look(server, path)).status == 200


async def test_the_other_port_refuses_what_it_does_not_know(server: Server) -> None:
    assert server.ops_listener is not None
    assert (await look(server, "/unknown")).status == 404
    assert (await ask(server.ops_listener.address, "/metrics", b"{}")).status == 405
