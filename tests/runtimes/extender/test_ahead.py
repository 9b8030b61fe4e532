"""Scores that are ready before kube-scheduler asks: used where it asks what was foreseen, and only there."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bayplan.config.check import load_checked
from bayplan.config.flags import Flags
from bayplan.engine.entry import Entry
from bayplan.engine.guard import Attempt
from bayplan.runtimes.extender import ahead
from bayplan.runtimes.extender.options import options_from
from bayplan.runtimes.extender.serve import Server
from bayplan.runtimes.extender.verbs import Answer, Judged, Verbs
from bayplan.testing import make_cluster, make_node
from tests.runtimes.extender.caller import Caller, Reply, make_pod, metric, names_request
from tests.runtimes.extender.obedient import make_options, serving, write_config

NODES = ["refused", "worst", "middle", "best"]
PASSED = NODES[1:]
REFUSE, SCORES = json.dumps({"refused": "no"}), json.dumps({"worst": 0, "middle": 40, "best": 100})


def pod(name: str, **annotations: str) -> dict[str, Any]:
    return make_pod(name, **{"refuse": REFUSE, "score": SCORES, **annotations})


def body(name: str, names: list[str] = NODES, **annotations: str) -> bytes:
    """A request as kube-scheduler writes it: without a space."""
    sent = names_request(names, pod=pod(name, **annotations))
    return json.dumps(sent, separators=(",", ":")).encode()


async def attempt(caller: Caller, name: str, names: list[str] = PASSED) -> Reply:
    """Both questions about a pod; the answer to the second."""
    await caller.post("filter", body(name))
    return await caller.post("prioritize", body(name, names))


def told(answer: Reply) -> dict[str, int]:
    return {line["Host"]: line["Score"] for line in answer.json}


async def counts(server: Server) -> tuple[float, float]:
    used, unused = [await metric(server, "bayplan_scores_ahead_total", result=r) for r in ("used", "unused")]
    return used, unused


def journal(server: Server, name: str) -> list[Entry]:
    """The decisions about a pod, the first one first."""
    return server.journal.of_pod(f"default/{name}")[::-1]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path, view=NODES) as running:
        yield running


@pytest.fixture
async def caller(server: Server) -> AsyncIterator[Caller]:
    """Somebody who has asked for scores before."""
    async with await Caller.connect(server) as connected:
        await attempt(connected, "first")
        yield connected


async def test_the_answer_is_the_same_as_ever(server: Server, caller: Caller) -> None:
    assert await counts(server) == (0, 0), "nobody knew yet that scores are asked for"

    ready = await attempt(caller, "web")
    asked_alone = await caller.post("prioritize", body("web", PASSED))

    assert await counts(server) == (1, 0)
    assert ready.body == asked_alone.body
    assert told(ready) == {"worst": 0, "middle": 4, "best": 10}
    assert ready.headers["bayplan-generation"] == asked_alone.headers["bayplan-generation"]


async def test_it_is_written_down_when_it_is_asked_and_not_before(server: Server, caller: Caller) -> None:
    await caller.post("filter", body("web"))
    before = journal(server, "web")
    calls = await metric(server, "bayplan_policy_duration_seconds_count", hook="scores")

    await caller.post("prioritize", body("web", PASSED))
    filtered, scored = journal(server, "web")
    more = await metric(server, "bayplan_policy_duration_seconds_count", hook="scores") - calls

    assert [entry.verb for entry in before] == ["filter"]
    assert (filtered.verb, scored.verb, scored.nodes) == ("filter", "prioritize", PASSED)
    assert filtered.number < scored.number
    assert more == 1
    assert await metric(server, "bayplan_requests_total", verb="prioritize", result="ok") == 2


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(body("web", PASSED[:2]), id="fewer names"),
        pytest.param(body("web", PASSED[::-1]), id="another order"),
        pytest.param(body("web", NODES), id="a name that did not pass"),
        pytest.param(body("other", PASSED), id="another pod"),
        pytest.param(body("web", PASSED, score="{}"), id="a pod that changed"),
        pytest.param(body("web", PASSED) + b"\n", id="a byte more"),
    ],
)
async def test_another_question_is_judged_as_ever(server: Server, caller: Caller, other: bytes) -> None:
    await caller.post("filter", body("web"))
    answer = await caller.post("prioritize", other)
    alone = await caller.post("prioritize", other)

    assert await counts(server) == (0, 0)
    assert answer.body == alone.body


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(json.dumps(names_request(NODES, pod=pod("web"))).encode(), id="with spaces"),
        pytest.param(body("web").replace(b'"NodeNames":', b'"nodeNames":'), id="in another spelling"),
        pytest.param(body("web")[:-1] + b',"Nodes":null}', id="with something after the names"),
        pytest.param(body("web") + b" ", id="with a space at the end"),
    ],
)
async def test_nothing_is_foreseen_of_a_request_in_other_words(
    server: Server, caller: Caller, sent: bytes
) -> None:
    answer = await caller.post("filter", sent)
    scored = await caller.post("prioritize", body("web", PASSED))

    assert answer.json["NodeNames"] == PASSED
    assert told(scored)["best"] == 10
    assert await counts(server) == (0, 0)


async def test_however_a_name_was_spelt_the_next_question_is_the_same(server: Server, caller: Caller) -> None:
    await caller.post("filter", body("web").replace(b'"worst"', b'"\\u0077orst"'))
    scored = await caller.post("prioritize", body("web", PASSED))

    assert told(scored)["best"] == 10
    assert await counts(server) == (1, 0)


async def test_names_that_are_part_of_the_pod_are_not_taken_for_those_of_the_request(
    server: Server, caller: Caller
) -> None:
    """Two lists that look alike: the last thing in the request is the pod, with a list in it."""
    names = json.dumps(NODES, separators=(",", ":"))
    described = json.dumps(pod("web"), separators=(",", ":"))
    sent = f'{{"Nodes":null,"NodeNames":{names},"Pod":{described[:-1]},"NodeNames":{names}}}}}'.encode()
    passed = json.dumps(PASSED, separators=(",", ":")).encode()
    first, last = sent.index(names.encode()), sent.rindex(names.encode())
    assert first != last
    trap = sent[:last] + passed + sent[last + len(names) :]

    await caller.post("filter", sent)
    answer = await caller.post("prioritize", trap)

    assert list(told(answer)) == NODES


@pytest.mark.parametrize("passed", [[], ["best"]])
async def test_with_one_node_left_or_none_nobody_asks(
    server: Server, caller: Caller, passed: list[str]
) -> None:
    refuse = json.dumps({name: "no" for name in NODES if name not in passed})
    await caller.post("filter", body("web", refuse=refuse))
    await caller.post("prioritize", body("web", passed, refuse=refuse))

    assert await counts(server) == (0, 0)


async def test_it_is_of_no_use_after_a_reload(tmp_path: Path) -> None:
    options = make_options(tmp_path, view=NODES)
    async with Server(options).running() as server, await Caller.connect(server) as caller:
        await attempt(caller, "first")
        await caller.post("filter", body("web"))
        server.adopt(replace(options, observe=True))
        answer = await caller.post("prioritize", body("web", PASSED))

        assert set(told(answer).values()) == {0}
        assert answer.headers["bayplan-generation"] == "2"
        assert await counts(server) == (0, 1)


async def test_it_is_of_no_use_after_a_while(
    server: Server, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "_KEPT_SECONDS", -1.0)

    assert told(await attempt(caller, "web"))["best"] == 10
    assert await counts(server) == (0, 1)


@pytest.mark.parametrize("how", [{"observe": True}, {"answer": {"keep": 1}}])
async def test_nothing_is_foreseen_where_no_scores_are_told(tmp_path: Path, how: dict[str, Any]) -> None:
    async with serving(tmp_path, view=NODES, **how) as server, await Caller.connect(server) as caller:
        for number in range(3):
            await attempt(caller, f"web-{number}")

        assert await counts(server) == (0, 0)


async def test_a_score_that_fails_is_asked_again_and_told(server: Server, caller: Caller) -> None:
    odd = json.dumps({"best": "no number"})
    await caller.post("filter", body("web", score=odd))
    answer = await caller.post("prioritize", body("web", PASSED, score=odd))

    assert "ValueError" in answer.headers["bayplan-error"]
    assert await counts(server) == (0, 1)
    assert told(await attempt(caller, "fine"))["best"] == 10


async def test_who_never_asks_for_scores_costs_a_few_and_no_more(
    server: Server, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored = []
    work = Verbs.prioritize_passed

    def noted(self: Verbs, filtered: Judged, attempt: Attempt) -> Answer:
        scored.append(filtered.question.pod.name)
        return work(self, filtered, attempt)

    monkeypatch.setattr(Verbs, "prioritize_passed", noted)
    for number in range(100):
        await caller.post("filter", body(f"web-{number}"))

    assert scored == [f"web-{number}" for number in range(ahead._AT_ONCE + ahead._PATIENCE - 1)]
    for number in range(ahead._SELDOM + 1):
        await attempt(caller, f"again-{number}")
    used, _ = await counts(server)
    assert used >= 1, "somebody asks for scores again"


async def test_several_callers_take_turns(server: Server, caller: Caller) -> None:
    async with await Caller.connect(server) as other:
        for number in range(5):
            mine, yours = f"mine-{number}", f"yours-{number}"
            await asyncio.gather(caller.post("filter", body(mine)), other.post("filter", body(yours)))
            answers = await asyncio.gather(
                caller.post("prioritize", body(mine, PASSED)), other.post("prioritize", body(yours, PASSED))
            )
            assert [told(answer)["best"] for answer in answers] == [10, 10]

    assert await counts(server) == (10, 0)


SLOW_SCORE = """
import time, bayplan

@bayplan.filter
def passes(nodes):
    return None

@bayplan.score(range=(0, 100))
def slow(pod, nodes):
    if "slow" in pod.name:
        time.sleep(30)
    return [50.0] * len(nodes)
"""


async def test_scores_that_hang_hold_up_nobody_but_who_asks_for_them(tmp_path: Path) -> None:
    config = write_config(tmp_path, limits={"policyTimeout": "500ms"})
    (tmp_path / "obedient.py").write_text(SLOW_SCORE)
    loaded, _ = load_checked([], Flags(config=config))
    snapshot = make_cluster([make_node(name) for name in NODES])
    options = replace(options_from(loaded, version="test"), snapshot=snapshot, watch_interpreter=False)
    async with Server(options).running() as server, await Caller.connect(server) as caller:
        await caller.post("filter", body("first"))
        await caller.post("prioritize", body("first"))
        start = asyncio.get_running_loop().time()
        await caller.post("filter", body("slow"))
        other = await caller.post("filter", body("web"))
        took = asyncio.get_running_loop().time() - start
        scored = await caller.post("prioritize", body("slow"))

    assert other.json["NodeNames"] == NODES
    assert took < 0.4
    assert "still running" in scored.headers["bayplan-error"]


SLOW_SCORES = """
import time

import bayplan
""" + "".join(
    f"""

@bayplan.score(range=(0, 100))
def part_{number}(pod, nodes):
    if "slow" in pod.name:
        time.sleep(0.4)
    return [50.0] * len(nodes)
"""
    for number in range(5)
)


async def test_scores_ahead_that_take_too_long_do_not_double_the_time_of_the_question(tmp_path: Path) -> None:
    config = write_config(tmp_path, limits={"policyTimeout": "900ms", "requestTimeout": "1s"})
    (tmp_path / "obedient.py").write_text(SLOW_SCORES)
    loaded, _ = load_checked([], Flags(config=config))
    snapshot = make_cluster([make_node(name) for name in NODES])
    options = replace(options_from(loaded, version="test"), snapshot=snapshot, watch_interpreter=False)
    async with Server(options).running() as server, await Caller.connect(server) as caller:
        await caller.post("filter", body("first"))
        await caller.post("prioritize", body("first"))
        await caller.post("filter", body("slow"))
        start = asyncio.get_running_loop().time()
        scored = await caller.post("prioritize", body("slow"))
        took = asyncio.get_running_loop().time() - start

    assert "longer than 1.0 s" in scored.headers["bayplan-error"]
    assert took < 1.5
