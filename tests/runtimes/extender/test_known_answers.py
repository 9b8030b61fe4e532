"""A server that knows what its policies say about pods of a kind: from the third one on it asks nobody."""

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bayplan.config.check import load_checked
from bayplan.config.flags import Flags
from bayplan.runtimes.extender import app, at_once, connection
from bayplan.runtimes.extender.options import Options, options_from
from bayplan.runtimes.extender.serve import Server
from bayplan.state.view import FixedView
from bayplan.testing import make_cluster, make_node
from tests.runtimes.extender.caller import Caller, Reply, make_pod, metric, names_request, request
from tests.runtimes.extender.obedient import write_config

NODES = ["slow", "small", "good", "best"]
POLICY = """
import bayplan

DISK = bayplan.Label("disk")
POINTS = bayplan.Label("points", int, default=0)
NO_SSD = bayplan.Reason("node has no SSD", detail="its disk is {disk}")
CALLS = []

@bayplan.filter(reads="node")
def on_ssd(nodes):
    CALLS.append(len(nodes))
    return NO_SSD.where(nodes[DISK] != "ssd", disk=nodes[DISK])

@bayplan.score(range=(0, 10), reads="node")
def points(nodes):
    CALLS.append(len(nodes))
    return nodes[POINTS]
"""


def cluster(**points: int) -> Any:
    given = {"slow": 9, "small": 1, "good": 5, "best": 8, **points}
    return make_cluster(
        [
            make_node(name, labels={"disk": "hdd" if name == "slow" else "ssd", "points": str(given[name])})
            for name in NODES
        ]
    )


def options(folder: Path, **extender: Any) -> Options:
    config = write_config(folder, **extender)
    (folder / "obedient.py").write_text(POLICY)
    (folder / "other.py").write_text(
        "import bayplan\n\n@bayplan.filter(reads='node')\ndef fine(node):\n    pass\n"
    )
    loaded, problems = load_checked([], Flags(config=config))
    assert problems == []
    made = options_from(loaded, version="test")
    return replace(made, snapshot=cluster(), watch_interpreter=False)


def body(name: str, names: list[str] = NODES) -> bytes:
    pod = make_pod(name)
    pod["metadata"]["uid"] = f"uid-of-{name}"
    return json.dumps(names_request(names, pod=pod), separators=(",", ":")).encode()


async def known(server: Server) -> tuple[float, float]:
    first, second = [
        await metric(server, "bayplan_known_answers_total", verb=verb) for verb in ("filter", "prioritize")
    ]
    return first, second


async def until(condition: Callable[[], Awaitable[Any]]) -> None:
    async with asyncio.timeout(10):
        for pause in itertools.repeat(0.005):
            if await condition():
                return
            await asyncio.sleep(pause)


async def _is(what: bool) -> bool:
    return what


async def _knows(server: Server) -> bool:
    """Whether something is known about the nodes as they are now."""
    kinds, cluster = server.app.generation.at_once._kinds, server.view.current
    return cluster is not None and any(each.era is cluster.era for each in kinds._known.values())


async def learned(server: Server, count: int = 1) -> None:
    await until(lambda: _is(len(server.app.generation.at_once) >= count))


async def teach(server: Server, caller: Caller) -> None:
    """Two pods, after which everything is known about those like them."""
    for name in ("first", "second"):
        await caller.post("filter", body(name))
    await learned(server)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with Server(options(tmp_path)).running() as running:
        yield running


@pytest.fixture
async def caller(server: Server) -> AsyncIterator[Caller]:
    async with await Caller.connect(server) as connected:
        yield connected


def same(answer: Reply, other: Reply) -> bool:
    return (answer.status, answer.body, answer.headers["bayplan-generation"]) == (
        other.status,
        other.body,
        other.headers["bayplan-generation"],
    )


async def test_from_the_third_pod_on_nobody_is_asked_and_the_answers_are_the_same(
    server: Server, caller: Caller
) -> None:
    asked = await caller.post("filter", body("first"))
    scored = await caller.post("prioritize", body("first"))
    assert len(server.app.generation.at_once) == 0, "it may be the only one of its kind"
    await caller.post("filter", body("second"))
    assert await known(server) == (0, 0)
    await learned(server)

    assert same(await caller.post("filter", body("third")), asked)
    assert same(await caller.post("prioritize", body("third")), scored)
    assert await known(server) == (1, 1)
    assert asked.json["NodeNames"] == ["small", "good", "best"]
    assert asked.json["FailedAndUnresolvableNodes"] == {"slow": "node has no SSD"}
    assert {line["Host"]: line["Score"] for line in scored.json} == {
        "slow": 9, "small": 1, "good": 5, "best": 8
    }  # fmt: skip


async def test_it_is_counted_and_written_down_as_any_other(server: Server, caller: Caller) -> None:
    await teach(server, caller)
    before = await metric(server, "bayplan_nodes_total", verb="filter", verdict="refused")
    await caller.post("filter", body("third"))
    await caller.post("prioritize", body("third", ["good", "best"]))

    scored, filtered = server.journal.of_pod("default/third")
    assert (filtered.verb, filtered.nodes, filtered.passed) == ("filter", NODES, 3)
    voice = next(voice for voice, _, _ in filtered.groups())
    assert (voice.policy, voice.hook) == ("obedient", "on_ssd")
    assert [detail for _, _, detail in voice.refusals()] == ["its disk is hdd"]
    assert (scored.verb, scored.nodes) == ("prioritize", ["good", "best"])
    assert scored.total is not None
    assert scored.total.tolist() == [50, 80]
    assert filtered.number < scored.number
    assert await metric(server, "bayplan_nodes_total", verb="filter", verdict="refused") == before + 1
    assert await metric(server, "bayplan_requests_total", verb="filter", result="ok") == 3
    assert await metric(server, "bayplan_request_duration_seconds_count", verb="filter") == 3


async def test_the_best_node_alone_is_told_at_once_and_another_one_the_next_time(tmp_path: Path) -> None:
    async with (
        Server(options(tmp_path, answer={"keep": 1})).running() as server,
        await Caller.connect(server) as caller,
    ):
        await teach(server, caller)
        told = [(await caller.post("filter", body("third"))).json["NodeNames"] for _ in range(4)]
        kept, *_ = [entry for entry in server.journal.of_pod("default/third") if entry.verb == "keep"]

        assert told == [["best"], ["good"], ["small"], ["best"]]
        assert (kept.kept_names(), kept.turn) == (["best"], 3)
        assert (await known(server))[0] == 4


@pytest.mark.parametrize("change", ["a node", "the policies"])
async def test_what_changes_is_learned_anew(tmp_path: Path, change: str) -> None:
    made = options(tmp_path)
    async with Server(made).running() as server, await Caller.connect(server) as caller:
        await teach(server, caller)
        if change == "a node":
            assert isinstance(server.view, FixedView)
            server.view.replace(cluster(small=10))
        else:
            server.adopt(replace(made, keep=1))
        answer = await caller.post("filter", body("third"))
        scores = await caller.post("prioritize", body("third"))

        assert await known(server) == (0, 0)
        assert len(answer.json["NodeNames"]) == (3 if change == "a node" else 1)
        small = next(line["Score"] for line in scores.json if line["Host"] == "small")
        assert small == (10 if change == "a node" else 1)
        await caller.post("filter", body("fourth"))
        await until(lambda: _knows(server))
        assert same(await caller.post("filter", body("fifth")), answer)
        assert await known(server) == (1, 0)


async def test_the_page_opens_what_was_known(server: Server, caller: Caller) -> None:
    await teach(server, caller)
    await caller.post("filter", body("third"))

    newest = server.journal.entries()[0]
    assert server.journal.find(newest.number) is newest
    assert newest.pod.key == "default/third"
    assert server.journal.size_bytes > newest.nbytes


@pytest.mark.parametrize("pieces", [2, 3, 7])
async def test_a_request_that_comes_in_pieces_is_answered_when_it_is_whole(
    server: Server, caller: Caller, pieces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine the pieces are longer on their way than a request that is known may be.
    monkeypatch.setattr(connection, "_LATE_SECONDS", 20.0)
    await teach(server, caller)
    sent = request("filter", body("third"))
    size = -(-len(sent) // pieces)
    for start in range(0, len(sent), size):
        await caller.send(sent[start : start + size])
        await asyncio.sleep(0.005)
    answer = await caller.reply()

    assert answer.json["NodeNames"] == ["small", "good", "best"]
    assert (await known(server))[0] == 1


async def test_requests_that_come_together_are_answered_in_their_order(
    server: Server, caller: Caller
) -> None:
    await teach(server, caller)
    orders = [NODES, NODES[::-1], NODES[1:], NODES[2:]]
    await caller.send(b"".join(request("filter", body(f"pod-{n}", names)) for n, names in enumerate(orders)))
    told = [(await caller.reply()).json["NodeNames"] for _ in orders]

    assert told == [[name for name in names if name != "slow"] for names in orders]


async def test_known_and_unknown_take_turns_on_one_connection(server: Server, caller: Caller) -> None:
    await teach(server, caller)
    sent = [
        body("third"),
        body("fourth", [*NODES, "stranger"]),
        body("fifth"),
        body("sixth", ["slow"]),
        body("last"),
    ]
    await caller.send(b"".join(request("filter", each) for each in sent))
    told = [(await caller.reply()).json["NodeNames"] for _ in sent]

    passed = ["small", "good", "best"]
    assert told == [passed, passed, passed, [], passed]


async def test_a_body_that_stays_away_is_told_so_as_ever(tmp_path: Path) -> None:
    made = options(tmp_path, limits={"bodyTimeout": "1s"})
    async with Server(made).running() as server, await Caller.connect(server) as caller:
        await teach(server, caller)
        await caller.send(request("filter", body("third"))[:-10])
        answer = await caller.reply()

        assert "did not arrive within 1 s" in answer.json["Error"]
        assert await caller.hung_up()


@pytest.mark.parametrize("how", ["half", "all"])
async def test_a_caller_that_goes_in_the_middle_of_a_body_is_counted(
    server: Server, caller: Caller, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    # Long enough that it is still hoped for.
    monkeypatch.setattr(connection, "_LATE_SECONDS", 30.0)
    await teach(server, caller)
    await caller.send(request("filter", body("third"))[:-10])
    await asyncio.sleep(0.05)
    if how == "half":
        caller.writer.write_eof()
    else:
        caller.writer.transport.abort()

    await until(lambda: metric(server, "bayplan_requests_total", verb="filter", result="invalid"))


async def test_a_server_that_ends_answers_what_is_half_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_LATE_SECONDS", 30.0)
    async with Server(options(tmp_path)).running() as server, await Caller.connect(server) as caller:
        await teach(server, caller)
        sent = request("filter", body("third"))
        await caller.send(sent[:-10])
        await asyncio.sleep(0.05)
        server.stop()
        await asyncio.sleep(0.05)
        await caller.send(sent[-10:])
        answer = await caller.reply()

    assert answer.json["NodeNames"] == ["small", "good", "best"]


@pytest.mark.parametrize("verb", ["GET", "PUT"])
async def test_another_method_is_refused_as_ever(server: Server, caller: Caller, verb: str) -> None:
    await teach(server, caller)
    await caller.send(request("filter", body("third"), method=verb))

    assert (await caller.reply()).status == 405
    assert (await known(server))[0] == 0


async def test_what_goes_wrong_at_once_is_answered_by_policies(
    server: Server, caller: Caller, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await teach(server, caller)

    def bug(*_: Any) -> Any:
        raise RuntimeError("a bug")

    monkeypatch.setattr(at_once.AtOnce, "answer", bug)
    answer = await caller.post("filter", body("third"))

    assert answer.json["NodeNames"] == ["small", "good", "best"]
    assert "this is a bug in Bayplan" in caplog.text


BY_NAME = """
import bayplan

@bayplan.filter(reads="node")
def by_name(pod, node):
    return node.name != "best" or not pod.name.startswith("late")
"""


async def test_a_promise_that_is_broken_is_told_while_it_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(at_once, "_CHECKED", 3)
    made = options(tmp_path)
    (tmp_path / "obedient.py").write_text(BY_NAME)
    loaded, problems = load_checked([], Flags(config=tmp_path / "bayplan.yaml"))
    assert problems == []
    made = replace(made, policies=loaded.policies, edition=loaded.edition)
    async with Server(made).running() as server, await Caller.connect(server) as caller:
        await teach(server, caller)
        told = [(await caller.post("filter", body(f"late-{n}"))).json["NodeNames"] for n in range(4)]

    assert told == [NODES, NODES, NODES[:-1], NODES[:-1]], "from the third on it is asked"
    assert 'by_name: promises reads="node", and what it says about node best depends on' in caplog.text


@pytest.mark.parametrize("pauses", [True, False], ids=["callers pause", "callers never pause"])
async def test_a_broken_promise_is_found_while_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, pauses: bool
) -> None:
    monkeypatch.setattr(app, "_NO_PAUSE_SECONDS", 3600.0 if pauses else 0.0)
    monkeypatch.setattr(app, "_PAUSE_SECONDS", 0.02 if pauses else 3600.0)
    made = options(tmp_path)
    (tmp_path / "obedient.py").write_text(BY_NAME)
    loaded, problems = load_checked([], Flags(config=tmp_path / "bayplan.yaml"))
    assert problems == []
    made = replace(made, policies=loaded.policies, edition=loaded.edition)
    async with Server(made).running() as server, await Caller.connect(server) as caller:
        await teach(server, caller)
        monkeypatch.setattr(at_once, "_CHECKED_SECONDS", 0.0)
        told = (await caller.post("filter", body("late"))).json["NodeNames"]
        await until(lambda: _is("by_name: promises" in caplog.text))
        again = (await caller.post("filter", body("late"))).json["NodeNames"]

    assert (told, again) == (NODES, NODES[:-1])


async def test_who_looks_on_sees_every_decision(server: Server, caller: Caller) -> None:
    await teach(server, caller)

    async def nothing() -> None: ...

    hold: Callable[[], Awaitable[None]] = nothing
    server.app.hold = hold
    await caller.post("filter", body("third"))
    server.app.hold = None
    assert (await known(server))[0] == 0
    await caller.post("filter", body("fourth"))
    assert (await known(server))[0] == 1


async def test_a_server_that_only_answers_at_once_is_not_idle(server: Server, caller: Caller) -> None:
    await teach(server, caller)
    before = server.app.asked_at
    start = time.monotonic()
    await caller.post("filter", body("third"))

    assert server.app.asked_at > before
    assert time.monotonic() - start < 5


async def test_a_small_limit_for_bodies_holds_for_known_answers_too(tmp_path: Path) -> None:
    made = options(tmp_path, limits={"maxBodyBytes": 1024})
    async with Server(made).running() as server, await Caller.connect(server) as caller:
        await teach(server, caller)
        assert (await caller.post("filter", body("third"))).json["NodeNames"]
        answer = await caller.post("filter", body("third") + b" " * 2000)

        assert "is larger than 1024 bytes" in answer.json["Error"]


async def test_garbage_is_answered_in_its_turn(server: Server, caller: Caller) -> None:
    await teach(server, caller)
    sent = [request("filter", body(f"pod-{number}")) for number in range(3)]
    await caller.send(b"".join(sent) + b"this is no HTTP\r\n\r\n")
    answers = [await caller.reply() for _ in range(4)]

    assert [answer.status for answer in answers] == [200, 200, 200, 400]


async def test_full_nodes_are_judged_as_ever_and_teach_nothing(server: Server, caller: Caller) -> None:
    """Also a node that the view does not have."""
    await teach(server, caller)
    for number in range(3):
        sent = json.loads(body(f"full-{number}"))
        labels = {"disk": "ssd", "points": "3"}
        sent["Nodes"] = {"items": [{"metadata": {"name": n, "labels": labels}} for n in [*NODES, "new"]]}
        sent["NodeNames"] = None
        answer = await caller.post("filter", sent)
        assert [item["metadata"]["name"] for item in answer.json["Nodes"]["items"]] == [*NODES, "new"]

    assert (await caller.post("filter", body("third"))).json["NodeNames"] == ["small", "good", "best"]
    assert await known(server) == (1, 0)
