"""Hooks that look at single nodes, beside others: they are not called, and nobody sees a difference."""

import json
import time
from array import array
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayplan
from bayplan.config.check import load_checked
from bayplan.config.flags import Flags
from bayplan.engine.guard import Attempt, overrun
from bayplan.ops.metrics import Metrics
from bayplan.runtimes.extender import app, at_once
from bayplan.runtimes.extender.at_once import AtOnce
from bayplan.runtimes.extender.known import KnownHooks, know
from bayplan.runtimes.extender.options import options_from
from bayplan.runtimes.extender.serve import Server
from bayplan.runtimes.extender.verbs import Answer, Judged, Verbs
from bayplan.snapshot.sources import NO_READINGS
from bayplan.state.view import FixedView
from bayplan.testing import make_cluster, make_node, make_pod
from bayplan.testing.run import ready
from tests.runtimes.extender.caller import Caller
from tests.runtimes.extender.obedient import write_config
from tests.runtimes.extender.test_at_once import NAMES, body, counted, pod_of, policies, said
from tests.runtimes.extender.test_known_answers import learned, until

FULL = bayplan.Reason("too many pods", preemptible=True)
CLUSTER = make_cluster(
    [make_node(name) for name in NAMES],
    [make_pod(f"p{number}", node=NAMES[number % 5]) for number in range(13)],
)


def mixed(every: Sequence[int], scores: Sequence[float], *, soft: bool, range: Any) -> list[Any]:
    """Policies that look at single nodes, and others around them that do not."""

    @bayplan.filter(reads="pods")
    def uncrowded(nodes: bayplan.NodeTable) -> bayplan.Verdict:
        return FULL.where(nodes["pods.requested"] >= 3)

    @bayplan.score(best="low", reads="pods")
    def empty(nodes: bayplan.NodeTable) -> Any:
        return nodes["pods.requested"].astype(np.float64)

    @bayplan.prefer
    def liked(node: bayplan.Node) -> bool:
        return node.name != NAMES[1]

    @bayplan.policy
    class Explained:
        @bayplan.score(reads="node")
        def explained(self, nodes: bayplan.NodeTable) -> bayplan.Score:
            last = [name[-1] for name in nodes.names]
            # A detail with values that are not one for each node is shown as it is, and breaks nothing.
            more = {"pair": np.array([1.0, 2.0]), "table": np.ones((2, len(last))), "most": 9}
            detail = "ends in {last} of {most} {pair[7]} {table[5]}"
            return bayplan.Score([float(digit) for digit in last], detail=detail, last=last, **more)

        @bayplan.score(reads="node")
        def told(self, nodes: bayplan.NodeTable) -> bayplan.Score:
            last = [ord(name[-1]) for name in nodes.names]
            return bayplan.Score(last, detail="code {code} and {same}", code=array("q", last), same=last)

    singles = policies(every, scores, [float(code) for code in every], range=range)
    first, *others = [policy for hook in (uncrowded, empty, Explained) for policy in ready(hook, None)]
    return [first, *singles, *others, *(ready(liked, None) if soft else [])]


def knowing(verbs: Verbs) -> AtOnce:
    """Somebody who knows the hooks that look at single nodes."""
    found = AtOnce(verbs, asks_sources=False)
    learned = know(verbs, pod_of(body(NAMES)), CLUSTER, NO_READINGS, Attempt())
    assert isinstance(learned, KnownHooks)
    found.learned(found._alike.kind(pod_of(body(NAMES))), learned, CLUSTER)
    return found


def details(verbs: Verbs) -> list[Any]:
    every = [voice for entry in verbs.journal.entries() for voice in entry.voices]
    return [list(voice.refusals()) for voice in every] + [
        [voice.behind(row) for row in range(len(voice.raw))] for voice in every if voice.raw is not None
    ]


@settings(max_examples=150, deadline=None)
@given(
    asked=st.lists(st.sampled_from([*NAMES, "stranger"]), unique=True, min_size=1),
    codes=st.lists(st.integers(0, 3), min_size=12, max_size=12),
    scores=st.lists(st.floats(0, 100) | st.just(float("nan")) | st.just(7.0), min_size=12, max_size=12),
    soft=st.booleans(),
    range=st.sampled_from([None, (0, 100), (0, 50)]),
    settings=st.fixed_dictionaries(
        {
            "failed_nodes_heeded": st.booleans(),
            "refusals": st.sampled_from(["always", "again", "whenNonePass"]),
            "keep": st.sampled_from([None, 1, 3]),
        }
    ),
)
def test_the_answer_and_the_record_are_those_of_hooks_that_are_called(  # noqa: PLR0917
    asked: list[str], codes: list[int], scores: list[float], soft: bool, range: Any, settings: dict[str, Any]
) -> None:
    every = mixed(codes, scores, soft=soft, range=range)
    sent = body(asked)
    long, short = (Verbs(every, Metrics(version="0"), **settings) for _ in "ab")
    quick = knowing(short)
    for verb in ("prioritize", "filter", "prioritize"):
        expected: Answer = getattr(long, verb)(sent, CLUSTER, Attempt())
        answer: Answer = getattr(short, verb)(sent, CLUSTER, Attempt(), known=quick.hooks)
        assert answer.judged is not None
        assert answer.judged.question.known is not None
        assert msgspec.json.decode(answer.body) == msgspec.json.decode(expected.body)
        assert (answer.cut_for, answer.refused) == (expected.cut_for, expected.refused)
        expected.write_down()
        answer.write_down()
        if verb == "filter":
            sent = body(json.loads(expected.body)["NodeNames"] or asked)

    wanted, found = long.journal.entries(), short.journal.entries()
    assert [said(entry) for entry in found] == [said(entry) for entry in wanted]
    assert details(short) == details(long)
    assert counted(short.metrics) == counted(long.metrics)


def test_scores_ahead_of_the_question_use_what_is_known() -> None:
    every = mixed([0] * 12, [5.0] * 12, soft=False, range=(0, 10))
    verbs = Verbs(every, Metrics(version="0"))
    filtered = verbs.filter(body(NAMES), CLUSTER, Attempt(), known=knowing(verbs).hooks).judged
    assert filtered is not None
    attempt = Attempt()

    ahead = verbs.prioritize_passed(filtered, attempt)

    assert sorted(ran.hook.name for ran in attempt.ran.values()) == ["empty"]
    passed = filtered.decision.passed_names
    assert ahead.body == verbs.prioritize(body(passed), CLUSTER, Attempt()).body


POLICY = """
import bayplan

DISK = bayplan.Label("disk")
CALLS = []

@bayplan.filter(reads="node")
def on_ssd(node):
    CALLS.append(node.name)
    return None if node.labels.get("disk") == "ssd" else "node has no SSD"

@bayplan.score(reads="nodes")
def in_order(nodes):
    return list(range(len(nodes)))
"""
NODES = ["slow", "good", "best"]


def cluster(**disks: str) -> Any:
    given = {"slow": "hdd", "good": "ssd", "best": "ssd", **disks}
    return make_cluster([make_node(name, labels={"disk": given[name]}) for name in NODES], [])


async def serving(folder: Path, text: str = POLICY, **extender: Any) -> Server:
    config = write_config(folder, **extender)
    (folder / "obedient.py").write_text(text)
    loaded, problems = load_checked([], Flags(config=config))
    assert problems == []
    made = options_from(loaded, version="test")
    return Server(replace(made, snapshot=cluster(), watch_interpreter=False))


def calls(server: Server) -> list[str]:
    first, *_ = server.app.generation.verbs.policies
    found: list[str] = first.hooks[0].function.__globals__["CALLS"]
    return found


async def names(caller: Caller, pod: str) -> Any:
    return (await caller.post("filter", body(NODES, pod))).json["NodeNames"]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with (await serving(tmp_path)).running() as running:
        yield running


@pytest.fixture
async def caller(server: Server) -> AsyncIterator[Caller]:
    async with await Caller.connect(server) as connected:
        for name in ("first", "second"):
            await names(connected, name)
        await learned(server)
        yield connected


async def test_a_hook_that_looks_at_single_nodes_is_not_called_for_each_pod(
    server: Server, caller: Caller
) -> None:
    calls(server).clear()

    assert [await names(caller, f"pod-{number}") for number in range(3)] == [["good", "best"]] * 3
    assert calls(server) == []
    filtered, *_ = server.journal.of_pod("default/pod-2")
    assert filtered.refused_by_policy() == {"obedient": 1}


async def test_it_is_called_again_when_a_node_has_changed(server: Server, caller: Caller) -> None:
    assert isinstance(server.view, FixedView)
    server.view.replace(cluster(slow="ssd"))
    calls(server).clear()

    assert await names(caller, "third") == NODES
    assert calls(server)[:3] == NODES
    await names(caller, "fourth")
    await until(lambda: _knows(server))
    calls(server).clear()
    assert await names(caller, "fifth") == NODES
    assert calls(server) == []


async def _knows(server: Server) -> bool:
    found, there = server.app.generation.at_once, server.view.current
    return there is not None and found.hooks(pod_of(body(NODES)), there, NO_READINGS) is not None


async def test_whoever_looks_on_has_every_hook_called(server: Server, caller: Caller) -> None:
    async def nothing() -> None: ...

    server.app.hold = nothing
    calls(server).clear()

    assert await names(caller, "third") == ["good", "best"]
    assert calls(server) == NODES


BY_NAME = POLICY.replace("def on_ssd(node):", "def on_ssd(pod, node):").replace(
    '"ssd" else', '"ssd" and not pod.name.startswith("late") else'
)


@pytest.mark.parametrize("how", ["one in so many", "now and then"])
async def test_a_broken_promise_is_found_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    monkeypatch.setattr(at_once, "_CHECKED", 2 if how == "one in so many" else 1 << 30)
    monkeypatch.setattr(app, "_NO_PAUSE_SECONDS", 0.0)
    async with (await serving(tmp_path, BY_NAME)).running() as server, await Caller.connect(server) as caller:
        for name in ("first", "second"):
            await names(caller, name)
        await learned(server)
        if how == "now and then":
            monkeypatch.setattr(at_once, "_CHECKED_SECONDS", 0.0)
        told = [await names(caller, "late-1")]
        if how == "now and then":
            await until(lambda: _told(caplog))
        told += [await names(caller, f"late-{number}") for number in (2, 3)]

    assert told == [["good", "best"], [], []]
    assert 'on_ssd: promises reads="node", and what it says about node good depends on' in caplog.text


SCORED_BY_NAME = """
import bayplan

@bayplan.score(reads="node", range=(0, 1))
def liked(pod, node):
    return float(node.name == ("best" if pod.name.startswith("late") else "good"))
"""
BESIDE_OTHERS = """
@bayplan.score(reads="nodes", range=(0, 1))
def others(nodes):
    return [0.0] * len(nodes)
"""


@pytest.mark.parametrize("how", ["one in so many", "now and then"])
@pytest.mark.parametrize("beside", ["", BESIDE_OTHERS], ids=["alone", "beside others"])
async def test_a_broken_promise_of_a_score_is_found_where_only_the_best_node_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, how: str, beside: str
) -> None:
    """kube-scheduler sends no prioritize then, so nobody else would look at scores."""
    monkeypatch.setattr(at_once, "_CHECKED", 2 if how == "one in so many" else 1 << 30)
    monkeypatch.setattr(app, "_NO_PAUSE_SECONDS", 0.0)
    made = await serving(tmp_path, SCORED_BY_NAME + beside, answer={"keep": 1})
    async with made.running() as server, await Caller.connect(server) as caller:
        for name in ("first", "second"):
            await names(caller, name)
        await learned(server)
        if how == "now and then":
            monkeypatch.setattr(at_once, "_CHECKED_SECONDS", 0.0)
        for number in range(2):
            await names(caller, f"late-{number}")
        await until(lambda: _told(caplog, "liked"))

        assert await names(caller, "late-2") == ["best"]


async def _told(caplog: pytest.LogCaptureFixture, hook: str = "on_ssd") -> bool:
    return f"{hook}: promises" in caplog.text


def test_a_policy_that_was_given_up_has_no_say() -> None:
    every = mixed([1] * 12, [5.0] * 12, soft=False, range=None)
    verbs = Verbs(every, Metrics(version="0"))
    quick = knowing(verbs)
    late = Attempt(given_up={policy.name: overrun(policy.hooks[0], 1.0) for policy in every[1:5]})
    again = Attempt(given_up=dict(late.given_up))

    called, known = (
        verbs.filter(body(NAMES), CLUSTER, late),
        verbs.filter(body(NAMES), CLUSTER, again, known=quick.hooks),
    )

    assert "still running" in called.error
    assert (known.error, known.body) == (called.error, called.body)


def test_a_filter_with_a_text_for_each_node_is_called() -> None:
    @bayplan.filter(reads="node")
    def wordy(node: bayplan.Node) -> str:
        return f"{node.name} is too warm"

    @bayplan.filter(reads="node")
    def short(node: bayplan.Node) -> str:
        return "too warm"

    @bayplan.score(reads="pods")
    def around(nodes: bayplan.NodeTable) -> Any:
        return nodes["pods.requested"]

    there = make_cluster([make_node(f"n{number}") for number in range(300)], [])
    verbs = Verbs([p for hook in (wordy, short, around) for p in ready(hook, None)], Metrics(version="0"))

    learned = know(verbs, pod_of(body(NAMES)), there, NO_READINGS, Attempt())

    assert isinstance(learned, KnownHooks)
    assert [each.hook for each in learned.hooks.results.values()] == ["short"]


def test_both_verbs_are_checked_in_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(at_once, "_CHECKED", 4)
    verbs = Verbs(mixed([0] * 12, [5.0] * 12, soft=False, range=None), Metrics(version="0"))
    quick, pod = knowing(verbs), pod_of(body(NAMES))

    checked = [quick.hooks(pod, CLUSTER, NO_READINGS) is None for _ in range(40)]

    assert {number % 2 for number, each in enumerate(checked) if each} == {0, 1}
    assert 10 <= sum(checked) <= 14


def test_a_hook_that_is_too_slow_for_all_nodes_is_not_learned() -> None:
    verbs = Verbs(mixed([0] * 12, [5.0] * 12, soft=False, range=None), Metrics(version="0"))
    quick = AtOnce(verbs, asks_sources=False)
    asked = [verbs.filter(body(NAMES[:3], name), CLUSTER, Attempt()).judged for name in "abc"]

    # Three of twelve nodes take a third of a second.
    slow = []
    for judged in asked:
        assert judged is not None
        outcomes = [msgspec.structs.replace(each, seconds=0.33) for each in judged.decision.outcomes]
        decision = msgspec.structs.replace(judged.decision, outcomes=tuple(outcomes))
        slow.append(msgspec.structs.replace(judged, decision=decision))

    assert not any(quick.wanted(each, CLUSTER, NO_READINGS, within_seconds=1.0) for each in slow)
    assert [bool(quick.wanted(each, CLUSTER, NO_READINGS, within_seconds=2.0)) for each in slow[:2]] == [
        False, True
    ]  # fmt: skip


def test_a_score_that_is_too_slow_for_all_nodes_is_not_learned_behind_a_shortened_answer() -> None:
    @bayplan.score(reads="node", range=(0, 1))
    def slow(node: bayplan.Node) -> float:
        time.sleep(0.01)
        return 1.0

    verbs = Verbs(ready(slow, None), Metrics(version="0"), keep=1)
    quick = AtOnce(verbs, asks_sources=False)
    asked = [verbs.filter(body(NAMES[:3], name), CLUSTER, Attempt()).judged for name in "ab"]

    every = [each for each in asked if each is not None]
    assert len(every) == 2
    assert not any(quick.wanted(each, CLUSTER, NO_READINGS, within_seconds=0.1) for each in every)


def test_a_pod_whose_bind_is_open_is_judged_as_ever() -> None:
    verbs = Verbs(mixed([0] * 12, [5.0] * 12, soft=False, range=None), Metrics(version="0"))
    quick = knowing(verbs)
    doubtful = make_cluster([make_node(name) for name in NAMES], [])

    judged: Judged | None = verbs.filter(body(NAMES), doubtful, Attempt(), known=quick.hooks).judged

    assert judged is not None
    assert judged.question.known is None, "other nodes than those that it was learned on"
