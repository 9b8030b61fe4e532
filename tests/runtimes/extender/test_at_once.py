"""Answers without asking a policy: byte for byte those that policies give, and written down the same."""

import json
import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayplan
from bayplan.authoring.registry import Policy
from bayplan.engine.entry import Entry
from bayplan.engine.guard import Attempt
from bayplan.kube.pod import Pod
from bayplan.ops.metrics import Metrics
from bayplan.runtimes.extender import at_once
from bayplan.runtimes.extender.alike import Alike
from bayplan.runtimes.extender.at_once import AtOnce
from bayplan.runtimes.extender.known import Known, KnownHooks, know
from bayplan.runtimes.extender.verbs import Answer, Verbs
from bayplan.snapshot import lookup
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.sources import NO_READINGS, Reading, Readings
from bayplan.testing import make_cluster, make_node
from bayplan.testing.run import ready
from bayplan.wire.codec import decode
from tests.runtimes.extender.caller import make_pod, names_request

NAMES = [f"node-{number}" for number in range(12)]
CLUSTER = make_cluster([make_node(name) for name in NAMES], [])
REASONS = [
    bayplan.Reason("too small", detail="{code} is small"),
    bayplan.Reason('says "no"\nand more \\ grün'),
    bayplan.Reason("full", preemptible=True),
]
VERBS = ("filter", "prioritize")


class Marks:
    """Columns with one number a node, by its name."""

    title, meaning = "marks", "numbers that a test gave"

    def __init__(self, by_name: Sequence[float]) -> None:
        self._by_name = dict(zip(NAMES, by_name, strict=True))

    def read(self, nodes: list[Any]) -> Any:
        return np.array([self._by_name[node.name] for node in nodes], dtype=np.float64)


def policies(
    codes: Sequence[int], scores: Sequence[float], more: Sequence[float], *, range: Any = (0, 100)
) -> list[Policy]:
    """Two filters and two scores that look at nothing but the node."""
    coded, first, second = Marks(codes), Marks(scores), Marks(more)

    @bayplan.filter(reads="node")
    def refuses(nodes: bayplan.NodeTable) -> bayplan.Verdict:
        given = nodes[coded]
        verdict = REASONS[0].where(given == 1, code=given)
        return verdict | REASONS[1].where(given == 2)

    @bayplan.filter(reads="node")
    def refuses_too(node: bayplan.Node) -> bayplan.Reason | None:
        return REASONS[2] if codes[NAMES.index(node.name)] >= 2 else None

    @bayplan.score(range=range, reads="node")
    def rates(nodes: bayplan.NodeTable) -> Any:
        return nodes[first]

    @bayplan.score(range=(0, 10), best="low", weight=2, reads="node")
    def rates_too(nodes: bayplan.NodeTable) -> Any:
        return nodes[second]

    return [p for hook in (refuses, refuses_too, rates, rates_too) for p in ready(hook, None)]


def body(asked: Sequence[str], name: str = "web-1", **pod: Any) -> bytes:
    sent = make_pod(name)
    sent["metadata"]["uid"] = f"uid-of-{name}"
    return msgspec.json.encode(names_request(list(asked), pod={**sent, **pod}))


def pod_of(sent: bytes) -> Pod:
    return msgspec.json.decode(msgspec.json.encode(json.loads(sent)["Pod"]), type=Pod)


def see_many(patch: pytest.MonkeyPatch, count: int) -> None:
    """Have so many nodes taken for many, everywhere."""
    for module in ("at_once", "known", "answer"):
        patch.setattr(f"bayplan.runtimes.extender.{module}.MANY", count)


def known(verbs: Verbs, cluster: Snapshot = CLUSTER, readings: Readings = NO_READINGS) -> AtOnce:
    """Somebody who knows all about pods like that of `body`."""
    found = AtOnce(verbs, asks_sources=False)
    pod = pod_of(body(NAMES))
    learned = know(verbs, pod, cluster, readings, Attempt())
    assert isinstance(learned, Known)
    found.learned(Alike(verbs.policies).kind(pod), learned, cluster)
    return found


def plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [plain(each) for each in value] if isinstance(value, tuple | list) else value


def said(entry: Entry) -> dict[str, Any]:
    """All that a reader can see of an entry, but for the time it took."""
    fields = (
        "number",
        "verb",
        "generation",
        "pod",
        "error",
        "not_in_view",
        "turn",
        "passed",
        "result",
        "nodes",
    )
    # Which reasons a hook that answers node by node *could* give is known only when it has given them.
    voices = [
        (
            *(v.policy, v.hook, v.kind, v.weight, v.shadow, v.void, v.failure, list(v.refusals())),
            *(plain(part) for part in (v.rows, v.normalised, v.raw)),
        )
        for v in entry.voices
    ]
    return {
        **{field: getattr(entry, field) for field in fields},
        # As text, where no opinion is one.
        "voices": repr(voices),
        "refused_by": plain(entry.refused_by),
        "total": repr(plain(entry.total)),
        "kept": (plain(entry.kept), entry.kept_names()),
        "groups": [(v.hook, reason.text, places) for v, reason, places in entry.groups()],
        "by policy": entry.refused_by_policy(),
    }


def counted(metrics: Metrics) -> list[tuple[Any, ...]]:
    families = [metrics.nodes, metrics.rejections]
    every = [sample for family in families for metric in family.collect() for sample in metric.samples]
    return sorted((s.name, sorted(s.labels.items()), s.value) for s in every if s.value)


numbers = st.lists(st.floats(0, 100) | st.integers(0, 4).map(float), min_size=12, max_size=12)


@settings(max_examples=200, deadline=None)
@given(
    asked=st.lists(st.sampled_from(NAMES), unique=True, min_size=1),
    codes=st.lists(st.integers(0, 3), min_size=12, max_size=12),
    scores=st.lists(st.floats(0, 100) | st.just(float("nan")) | st.just(7.0), min_size=12, max_size=12),
    more=numbers,
    range=st.sampled_from([None, (0, 100), (0, 50)]),
    settings=st.fixed_dictionaries(
        {
            "failed_nodes_heeded": st.booleans(),
            "refusals": st.sampled_from(["always", "again", "whenNonePass"]),
            "keep": st.sampled_from([None, 1, 3]),
        }
    ),
    turn=st.integers(0, 2),
    many=st.booleans(),
)
def test_the_answer_and_the_record_are_those_that_policies_give(  # noqa: PLR0917
    asked: list[str],
    codes: list[int],
    scores: list[float],
    more: list[float],
    range: Any,
    settings: dict[str, Any],
    turn: int,
    many: bool,
) -> None:
    every = policies(codes, scores, more, range=range)
    sent = body(asked)
    long, short = (Verbs(every, Metrics(version="0"), **settings) for _ in range_of(2))
    for verbs in (long, short):
        for _ in range_of(turn):
            verbs.turns.told("uid-of-web-1")
    with pytest.MonkeyPatch.context() as patch:
        see_many(patch, 3 if many else lookup.MANY)
        quick = known(short)
        for verb in ("prioritize", "filter", "prioritize"):
            expected: Answer = getattr(long, verb)(sent, CLUSTER, Attempt())
            answer = quick.answer(verb, sent, CLUSTER, NO_READINGS)
            if verb == "filter" and expected.refused is not None:
                assert answer is None, "where no node is left, news are waited for"
                return
            assert answer is not None
            assert answer.body == expected.body
            assert answer.cut_for == expected.cut_for
            expected.write_down()
            answer.write_down()
            if verb == "filter":
                # What kube-scheduler asks next.
                sent = body(json.loads(expected.body)["NodeNames"])

    wanted, found = long.journal.entries(), short.journal.entries()
    assert [said(entry) for entry in found] == [said(entry) for entry in wanted]
    assert counted(short.metrics) == counted(long.metrics)


range_of = range


@pytest.mark.parametrize("many", [False, True], ids=["few", "many"])
def test_the_question_that_follows_a_filter_is_answered_without_reading_it(
    verbs: Verbs, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    see_many(monkeypatch, 3 if many else lookup.MANY)
    quick = known(verbs)
    for verb in VERBS:
        passed = quick.answer(verb, body(NAMES), CLUSTER, NO_READINGS)
        assert passed is not None
        if verb == "prioritize":
            passed = quick.answer("filter", body(NAMES), CLUSTER, NO_READINGS)
    assert passed is not None
    following = body(json.loads(passed.body)["NodeNames"])
    monkeypatch.setattr(at_once, "decode", None)

    found = quick.answer("prioritize", following, CLUSTER, NO_READINGS)

    assert found is not None
    assert found.body == verbs.prioritize(following, CLUSTER, Attempt()).body


def test_after_a_filter_in_other_words_an_empty_question_is_no_answer(verbs: Verbs) -> None:
    quick = known(verbs)
    quick.answer("prioritize", body(NAMES), CLUSTER, NO_READINGS)

    assert quick.answer("filter", body(NAMES) + b"\n", CLUSTER, NO_READINGS) is not None
    assert quick.answer("prioritize", b"", CLUSTER, NO_READINGS) is None


@pytest.mark.parametrize("what", ["nodes", "a pod that may yet be bound"])
def test_the_question_that_follows_is_judged_when_something_has_changed(verbs: Verbs, what: str) -> None:
    quick = known(verbs)
    quick.answer("prioritize", body(NAMES), CLUSTER, NO_READINGS)
    passed = quick.answer("filter", body(NAMES), CLUSTER, NO_READINGS)
    assert passed is not None
    unsettled = {"uid-of-web-1": "node-0"} if what != "nodes" else {}
    marks = CLUSTER.marks if unsettled else None
    later = Snapshot(CLUSTER.nodes, [], unsettled=unsettled, marks=marks, rows=CLUSTER.rows)

    following = body(json.loads(passed.body)["NodeNames"])

    assert quick.answer("prioritize", following, CLUSTER, NO_READINGS) is not None
    assert quick.answer("prioritize", following, later, NO_READINGS) is None


@pytest.fixture
def verbs() -> Verbs:
    return Verbs(policies([0, 1, 2] * 4, range_of(12), [5.0] * 12), Metrics(version="0"))


def test_pods_that_differ_in_name_and_uid_are_of_one_kind(verbs: Verbs) -> None:
    quick = known(verbs)

    assert quick.answer("filter", body(NAMES, "web-2"), CLUSTER, NO_READINGS) is not None


def test_where_no_hook_asks_for_the_pod_all_are_of_one_kind_and_each_is_written_down_as_it_is(
    verbs: Verbs,
) -> None:
    quick = known(verbs)
    spec = {"nodeSelector": {"a": "b"}, "priority": 7, "volumes": [{"persistentVolumeClaim": {}}]}

    answer = quick.answer("filter", body(NAMES, "other", spec=spec), CLUSTER, NO_READINGS)

    assert answer is not None
    answer.write_down()
    (entry,) = verbs.journal.entries()
    assert (entry.pod.key, entry.pod.uid, entry.pod.priority) == ("default/other", "uid-of-other", 7)


def test_where_a_hook_asks_for_the_pod_one_that_is_not_alike_is_judged() -> None:
    @bayplan.filter(reads="node")
    def small(pod: bayplan.Pod, nodes: bayplan.NodeTable) -> Any:
        return np.full(len(nodes), pod.priority < 5)

    verbs = Verbs(ready(small, None), Metrics(version="0"))
    quick = known(verbs)

    assert quick.answer("filter", body(NAMES, "web-2"), CLUSTER, NO_READINGS) is not None
    assert quick.answer("filter", body(NAMES, spec={"priority": 7}), CLUSTER, NO_READINGS) is None


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(body([*NAMES, "stranger"]), id="a node that is not in view"),
        pytest.param(body([*NAMES, NAMES[0]]), id="a node that is there twice"),
        pytest.param(body([]), id="no nodes"),
        pytest.param(body(["node-1", "node-2"]), id="no node is left"),
        pytest.param(b"{", id="no JSON"),
        pytest.param(b'{"Pod":null,"NodeNames":["node-0"]}', id="no pod"),
        pytest.param(body(NAMES, "x" * 300), id="a UID that is none"),
        pytest.param(
            msgspec.json.encode({**json.loads(body(NAMES)), "Nodes": {"items": []}}), id="full nodes"
        ),
    ],
)
def test_whatever_is_not_usual_is_left_to_policies(verbs: Verbs, sent: bytes) -> None:
    assert known(verbs).answer("filter", sent, CLUSTER, NO_READINGS) is None


def test_a_pod_that_may_yet_be_bound_is_left_to_policies(verbs: Verbs) -> None:
    quick = known(verbs)
    doubtful = Snapshot(CLUSTER.nodes, [], unsettled={"uid-of-web-1": "node-0"}, marks=CLUSTER.marks)
    kind = Alike(verbs.policies).kind(pod_of(body(NAMES)))
    quick.learned(kind, _learn(verbs, doubtful), doubtful)

    assert quick.answer("filter", body(NAMES), doubtful, NO_READINGS) is None
    assert quick.answer("filter", body(NAMES, "web-2"), doubtful, NO_READINGS) is not None


def _learn(verbs: Verbs, cluster: Snapshot) -> Any:
    return know(verbs, pod_of(body(NAMES)), cluster, NO_READINGS, Attempt())


@pytest.mark.parametrize("what", ["nodes", "objects", "sources"])
def test_it_holds_as_long_as_nothing_has_changed(verbs: Verbs, what: str) -> None:
    quick = known(verbs)
    changed, readings = CLUSTER, NO_READINGS
    if what == "nodes":
        changed = make_cluster([make_node(name) for name in NAMES], [])
    elif what == "objects":
        changed = Snapshot(CLUSTER.nodes, [], rows=CLUSTER.rows)
    else:
        readings = Readings({"p95": Reading({"": {"node-0": 1.0}})})

    assert quick.answer("filter", body(NAMES), CLUSTER, NO_READINGS) is not None
    assert quick.answer("filter", body(NAMES), changed, readings) is None


@pytest.mark.parametrize("reads", ["nodes", "pods", "cluster", lambda *_: "node"])
@pytest.mark.parametrize("decorator", [bayplan.filter, bayplan.score])
def test_who_promises_less_is_asked(decorator: Any, reads: Any) -> None:
    def looks_around(nodes: bayplan.NodeTable) -> Any:
        return np.ones(len(nodes), dtype=np.bool_ if decorator is bayplan.filter else np.float64)

    decorator(reads=reads)(looks_around)

    verbs = Verbs(
        [*policies([0] * 12, [1.0] * 12, [1.0] * 12), *ready(looks_around, None)], Metrics(version="0")
    )
    learned = _learn(verbs, CLUSTER)

    assert isinstance(learned, KnownHooks)
    assert sorted(each.hook for each in learned.hooks.results.values()) == [
        "rates", "rates_too", "refuses", "refuses_too"
    ]  # fmt: skip


def test_a_soft_filter_and_what_is_prepared_are_matters_of_more_than_one_node() -> None:
    @bayplan.prefer
    def soft(nodes: bayplan.NodeTable) -> Any:
        return np.ones(len(nodes), dtype=np.bool_)

    @bayplan.policy
    class Prepared:
        @bayplan.prepare
        def before(self, pod: bayplan.Pod) -> int:
            return 1

        @bayplan.filter(reads="node")
        def passes(self, nodes: bayplan.NodeTable) -> None:
            return None

    for policy in (*ready(soft, None), *ready(Prepared, None)):
        assert _learn(Verbs([policy], Metrics(version="0")), CLUSTER) is None


def test_who_only_looks_on_or_fails_is_asked(verbs: Verbs) -> None:
    @bayplan.filter(reads="node")
    def fails(nodes: bayplan.NodeTable) -> None:
        raise ValueError("no")

    broken = Verbs([*verbs.policies, *ready(fails, None)], Metrics(version="0"))
    shadows = Verbs([replace(policy, shadow=True) for policy in verbs.policies], Metrics(version="0"))
    observing = Verbs(verbs.policies, Metrics(version="0"), observe=True)

    learned = _learn(broken, CLUSTER)
    assert isinstance(learned, KnownHooks)
    assert "fails" not in {each.hook for each in learned.hooks.results.values()}
    assert _learn(shadows, CLUSTER) is None
    assert known(observing).answer("filter", body(NAMES), CLUSTER, NO_READINGS) is None


def test_names_that_need_escapes_are_left_to_policies(verbs: Verbs) -> None:
    odd = make_cluster([make_node('no"de')], [])

    @bayplan.filter(reads="node")
    def passes(nodes: bayplan.NodeTable) -> None:
        return None

    assert not isinstance(_learn(Verbs(ready(passes, None), Metrics(version="0")), odd), Known)


def test_where_the_log_tells_of_each_decision_they_are_made_as_ever(
    verbs: Verbs, caplog: pytest.LogCaptureFixture
) -> None:
    quick = known(verbs)
    caplog.set_level(logging.DEBUG)

    assert quick.answer("filter", body(NAMES), CLUSTER, NO_READINGS) is None


def test_a_kind_that_comes_again_is_worth_learning_and_one_that_does_not_is_not(verbs: Verbs) -> None:
    quick = AtOnce(verbs, asks_sources=False)
    first, second = (verbs.filter(body(NAMES, name), CLUSTER, Attempt()).judged for name in ("a", "b"))
    assert first is not None
    assert second is not None

    assert quick.wanted(first, CLUSTER, NO_READINGS) == b""
    assert quick.wanted(first, CLUSTER, NO_READINGS) == b"", "the same pod, for its scores"
    kind = quick.wanted(second, CLUSTER, NO_READINGS)
    assert kind == Alike(verbs.policies).kind(second.question.pod)
    quick.learned(kind, _learn(verbs, CLUSTER), CLUSTER)
    assert quick.wanted(first, CLUSTER, NO_READINGS) == b"", "it is known"


def test_nothing_is_learned_from_nodes_that_came_with_a_request(
    verbs: Verbs, caplog: pytest.LogCaptureFixture
) -> None:
    """They need not be those of the view, nor in its rows."""
    sent = {"metadata": {"name": "new", "labels": {"x": "y"}}}
    pod = json.loads(body(NAMES))["Pod"]
    nodes = {"items": [{"metadata": {"name": name}} for name in NAMES] + [sent]}
    request = msgspec.json.encode({"Pod": pod, "Nodes": nodes, "NodeNames": None})

    @bayplan.filter(reads="node")
    def by_label(node: bayplan.Node) -> bool:
        return "x" in node.labels

    fresh = Verbs(ready(by_label, None), Metrics(version="0"))
    quick = known(fresh)
    judged = fresh.filter(request, CLUSTER, Attempt()).judged
    assert judged is not None
    quick.check(judged, CLUSTER, NO_READINGS, scored=False)

    assert quick.wanted(judged, CLUSTER, NO_READINGS) == b""
    assert not caplog.records
    assert len(quick) == 1


def test_a_pod_that_only_shadows_are_for_keeps_all_its_nodes() -> None:
    @bayplan.protect
    def guards(victim: bayplan.Pod) -> bool:
        return True

    shadows = [replace(policy, shadow=True) for policy in ready(guards, None)]

    assert _learn(Verbs(shadows, Metrics(version="0"), keep=1), CLUSTER) is None


def test_after_a_while_it_is_time_to_check_one(verbs: Verbs) -> None:
    quick = known(verbs)
    now = time.perf_counter()

    assert [quick.due(now + seconds) for seconds in (1.0, 9.0, 11.0, 12.0, 22.0)] == [
        *[False, False, True, False, True]
    ]


def test_where_no_pod_is_like_another_few_are_looked_at(
    verbs: Verbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[bytes] = []

    def look(sent: bytes, kind: Any) -> Any:
        looked.append(sent)
        return decode(sent, kind)

    monkeypatch.setattr(at_once, "decode", look)
    quick = AtOnce(verbs, asks_sources=False)
    for number in range_of(1000):
        assert quick.answer("filter", body(NAMES, spec={"priority": number}), CLUSTER, NO_READINGS) is None

    assert len(looked) < 120


def test_a_broken_promise_is_seen_told_and_not_relied_on_any_more(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(at_once, "_CHECKED", 5)

    @bayplan.filter(reads="node")
    def by_name(pod: bayplan.Pod, nodes: bayplan.NodeTable) -> Any:
        return np.array([name != "node-3" or not pod.name.endswith("4") for name in nodes.names])

    verbs = Verbs(ready(by_name, None), Metrics(version="0"))
    quick = known(verbs)
    answers = [quick.answer("filter", body(NAMES, f"web-{n}"), CLUSTER, NO_READINGS) for n in range_of(5)]
    judged = verbs.filter(body(NAMES, "web-4"), CLUSTER, Attempt()).judged
    assert judged is not None
    quick.check(judged, CLUSTER, NO_READINGS, scored=False)

    assert [answer is None for answer in answers] == [False] * 4 + [True], "the fifth is judged as ever"
    assert 'by_name: promises reads="node", and what it says about node node-3 depends on' in caplog.text
    assert quick.answer("filter", body(NAMES), CLUSTER, NO_READINGS) is None
    assert not len(quick)


@pytest.mark.parametrize("verb", VERBS)
def test_a_promise_that_is_kept_is_relied_on(
    verbs: Verbs, verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    quick = known(verbs)
    judged = getattr(verbs, verb)(body(NAMES[3:]), CLUSTER, Attempt()).judged
    quick.check(judged, CLUSTER, NO_READINGS, scored=verb == "prioritize")

    assert not caplog.records
    assert quick.answer(verb, body(NAMES), CLUSTER, NO_READINGS) is not None
