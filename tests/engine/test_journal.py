"""The journal keeps the last decisions: bounded in bytes, for many threads, and without secrets."""

import gc
import threading
import tracemalloc
from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
import pytest

import bayplan
from bayplan.engine.cycle import Question, filter_nodes
from bayplan.engine.entry import Entry, PodRef, shared_bytes
from bayplan.engine.journal import Journal
from bayplan.kube.node import NodeObject
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot
from bayplan.testing import make_pod
from bayplan.testing.run import ready
from bayplan.web.api import detail, summary
from tests.web.decided import cluster_of, filtered, scored, written

CLUSTER = cluster_of(12)


def test_of_a_pod_whose_requests_cannot_be_read_the_rest_is_kept() -> None:
    sent = {"spec": {"containers": [{"resources": {"requests": {"cpu": "s"}}}]}, "metadata": {"name": "web"}}

    found = PodRef.of(msgspec.convert(sent, Pod))

    assert (found.name, found.requests) == ("web", {})


def test_entries_come_back_newest_first_and_by_number() -> None:
    journal = Journal(clock=lambda: 1000.0)
    first, second = written(journal, CLUSTER)

    assert [entry.number for entry in journal.entries()] == [2, 1]
    assert journal.find(1) is first
    assert journal.find(3) is None
    assert journal.of_pod("shop/web-1") == [second, first]
    assert journal.of_pod("shop/web") == []


def test_an_entry_says_of_each_node_who_refused_it_and_why() -> None:
    entry = Journal().write("filter", filtered(CLUSTER), generation=3)

    told = {
        (voice.policy, reason.text): sorted(entry.nodes[int(voice.rows[place])] for place in places)
        for voice, reason, places in entry.groups()
        if voice.rows is not None
    }

    assert told == {
        ("capacity", "too little CPU"): ["node-0000", "node-0004", "node-0008"],
        ("placement", "wrong zone"): ["node-0002", "node-0005", "node-0011"],
    }
    assert (entry.offered, entry.passed, entry.result, entry.generation) == (12, 6, "ok", 3)


def test_a_detail_has_the_numbers_of_its_own_node() -> None:
    cluster = cluster_of(8)
    big = make_pod("big", cpu=4)

    entry = Journal().write("filter", filtered(cluster, big), generation=1)

    details = {entry.nodes[row]: text for row, reason, text in entry.voices[0].refusals()}
    assert details == {
        "node-0000": "1000 free",
        "node-0001": "2000 free",
        "node-0004": "1000 free",
        "node-0005": "2000 free",
    }


def test_a_detail_that_is_a_list_has_the_text_of_its_own_node_also_behind_a_soft_filter() -> None:
    called = bayplan.Reason("not liked", detail="it is {name}")

    @bayplan.filter
    def hard(node: bayplan.Node) -> bool:
        return node.name != "node-0000"

    @bayplan.prefer
    def soft(nodes: bayplan.NodeTable) -> bayplan.Verdict:
        refused = [name in ("node-0001", "node-0003") for name in nodes.names]
        return called.where(refused, name=list(nodes.names))

    cluster = cluster_of(5)
    question = Question(make_pod("web"), cluster.nodes, cluster, datetime.now(UTC))
    decision = filter_nodes([*ready(hard, None), *ready(soft, None)], question)

    entry = Journal().write("filter", decision, generation=1)

    found = {entry.nodes[row]: text for row, _, text in entry.voices[1].refusals()}
    assert found == {"node-0001": "it is node-0001", "node-0003": "it is node-0003"}


@pytest.mark.parametrize("kind", [range, lambda count: array("q", range(count)), lambda n: deque(range(n))])
def test_a_detail_that_is_another_sequence_has_the_value_of_its_own_node(kind: Callable[[int], Any]) -> None:
    numbered = bayplan.Reason("not liked", detail="it is number {number}")

    @bayplan.filter
    def odd(nodes: bayplan.NodeTable) -> bayplan.Verdict:
        return numbered.where(np.arange(len(nodes)) % 2 == 1, number=kind(len(nodes)))

    cluster = cluster_of(5)
    question = Question(make_pod("web"), cluster.nodes, cluster, datetime.now(UTC))

    entry = Journal().write("filter", filter_nodes(ready(odd, None), question), generation=1)

    found = {entry.nodes[row]: text for row, _, text in entry.voices[0].refusals()}
    assert found == {"node-0001": "it is number 1", "node-0003": "it is number 3"}


@pytest.mark.parametrize(
    "kind",
    [pytest.param("names", id="one cluster for all"), pytest.param("full", id="nodes in each request")],
)
def test_what_it_holds_stays_within_its_bytes(kind: str) -> None:
    limit = 1_000_000
    journal = Journal(max_bytes=limit)
    cluster = cluster_of(500)
    objects = list(cluster.nodes.objects)
    tracemalloc.start()
    try:
        for number in range(200):
            seen = cluster if kind == "names" else _sent_anew(objects)
            pod = make_pod(f"pod-{number}", cpu=2)
            journal.write("filter", filtered(seen, pod), generation=1)
            del seen
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert 0.5 * limit < journal.size_bytes <= limit
    assert 10 < len(journal) < 200
    # What it counts is what it holds, give or take what Python's objects weigh.
    assert held < 1.5 * limit


@pytest.mark.parametrize("kind", ["text", "list", "objects", "map", "one", "failure"])
def test_what_a_hook_makes_for_each_node_stays_within_its_bytes(kind: str) -> None:
    called = bayplan.Reason("not liked", detail="it is {x}")

    @bayplan.filter
    def each(node: bayplan.Node, pod: bayplan.Pod) -> str:
        return f"{node.name} is not liked by {pod.name}"

    @bayplan.filter
    def table(nodes: bayplan.NodeTable, pod: bayplan.Pod) -> bayplan.Verdict:
        if kind == "failure":
            raise ValueError("x" * 50_000)
        texts = [f"{name} is not liked by {pod.name}" for name in nodes.names]
        many: dict[str, Any] = {
            "list": texts,
            "objects": np.array(texts, dtype=object),
            "map": dict(zip(nodes.names, texts, strict=True)),
            "one": "".join(texts),
        }
        return called.where(np.ones(len(nodes), dtype=bool), x=many[kind])

    limit = 1_000_000
    journal = Journal(max_bytes=limit)
    cluster = cluster_of(500)
    hooks = ready(each if kind == "text" else table, None)
    policies = [replace(policy, failure_policy="Ignore") for policy in hooks]
    tracemalloc.start()
    try:
        for number in range(100):
            question = Question(make_pod(f"pod-{number}"), cluster.nodes, cluster, datetime.now(UTC))
            journal.write("filter", filter_nodes(policies, question), generation=1)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert 0.5 * limit < journal.size_bytes <= limit
    assert held < 1.5 * limit


def test_texts_of_any_length_are_counted() -> None:
    journal = Journal(max_bytes=100_000)

    for number in range(50):
        pod = PodRef.of(make_pod(f"pod-{number}", labels={"long": "x" * 5000}))
        journal.note(
            "preempt", pod, generation=1, dropped=tuple(("node", "policy", "y" * 1000) for _ in "ab")
        )

    assert len(journal) < 15
    assert journal.size_bytes <= 100_000


@pytest.mark.parametrize("long", ["name", "uid", "namespace", "scheduler", "resource", "node"])
def test_whatever_is_long_in_a_request_is_counted(long: str) -> None:
    journal = Journal(max_bytes=100_000)

    for number in range(50):
        text = f"{number}-" + "x" * 5000
        pod = PodRef("shop", "web", "u", {}, {text: 1} if long == "resource" else {}, 0, "")
        if long in PodRef.__struct_fields__:
            pod = msgspec.structs.replace(pod, **{long: text})
        journal.note("bind", pod, generation=1, node=text if long == "node" else "")

    assert len(journal) < 20
    assert journal.size_bytes <= 100_000


def test_labels_that_pods_of_a_controller_share_are_counted_once() -> None:
    journal = Journal()
    first = PodRef.of(make_pod("web-0", labels={"long": "x" * 5000}))
    sizes = []
    for number in range(3):
        journal.note("bind", first.named(f"web-{number}", f"u{number}"), generation=1)
        sizes.append(journal.size_bytes)

    assert sizes[0] > 5000
    assert sizes[2] - sizes[1] < 5000


def test_decisions_over_all_nodes_share_their_rows() -> None:
    first, second = written(Journal(), CLUSTER)

    assert first.rows is second.rows
    assert first.rows.tolist() == list(range(len(CLUSTER.nodes)))
    assert not first.rows.flags.writeable


def test_one_decision_is_kept_however_large_it_is() -> None:
    journal = Journal(max_bytes=1)

    (first, second) = written(journal, CLUSTER)

    assert journal.entries() == [second]
    assert first.number == 1


def test_many_threads_write_and_read_at_once() -> None:
    journal = Journal(max_bytes=300_000)
    decisions = [filtered(CLUSTER), scored(CLUSTER)]
    wrong: list[BaseException] = []
    start = threading.Barrier(6)

    def write() -> None:
        start.wait()
        for number in range(300):
            journal.write("filter", decisions[number % 2], generation=1)

    def read() -> None:
        start.wait()
        try:
            for _ in range(300):
                numbers = [entry.number for entry in journal.entries()]
                assert len(set(numbers)) == len(numbers)
                assert journal.size_bytes <= 300_000 + 50_000
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for work in (write, write, write, write, read, read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []
    assert max(entry.number for entry in journal.entries()) >= 1200 - 4
    assert journal.size_bytes == sum(e.nbytes for e in journal.entries()) + _shared_bytes(journal)


def test_annotations_and_environment_are_in_no_entry_and_no_json() -> None:
    pod = make_pod(
        "secretive",
        cpu=2,
        labels={"app": "shown"},
        annotations={"example.com/token": "hush-annotation"},
        spec={"containers": [{"name": "main", "env": [{"name": "PASSWORD", "value": "hush-env"}]}]},
    )
    journal = Journal()
    entry = journal.write("filter", filtered(CLUSTER, pod), generation=1)

    encoded = msgspec.json.encode([summary(entry), detail(entry, [])])

    assert b"shown" in encoded
    assert b"hush" not in encoded
    assert "hush" not in repr(entry)


def test_no_opinion_is_null_in_json_and_never_nan() -> None:
    entry = Journal().write("prioritize", scored(CLUSTER), generation=1)

    whole = detail(entry, [])
    told = msgspec.json.decode(msgspec.json.encode(whole))

    assert whole.voices[0].scores[0] is None
    price = next(voice for voice in told["voices"] if voice["hook"] == "price")
    assert [price["scores"][place] for place in (0, 5, 10)] == [None, None, None]
    assert price["scores"][7] == 100
    assert b"NaN" not in msgspec.json.encode(detail(entry, []))


def test_whoever_looks_on_cannot_break_a_decision(caplog: pytest.LogCaptureFixture) -> None:
    told: list[int] = []

    def fails(entry: Entry) -> None:
        raise RuntimeError("the disk is full")

    journal = Journal(on_entry=[fails, lambda entry: told.append(entry.number)])

    journal.write("filter", filtered(CLUSTER), generation=1)

    assert told == [1]
    assert "decision 1 could not be told" in caplog.text


def test_a_bind_is_noted_without_nodes() -> None:
    journal = Journal()
    who = PodRef.of(make_pod("web-1", namespace="shop"))

    fine = journal.note("bind", who, generation=1, node="node-0001")
    failed = journal.note("bind", who, generation=1, error="pod is gone", node="node-0001")

    assert (fine.result, fine.node, fine.nodes) == ("ok", "node-0001", [])
    assert failed.result == "error"


def test_arrays_of_an_entry_are_its_own_and_small() -> None:
    entry = Journal().write("prioritize", scored(CLUSTER), generation=1)

    arrays = [a for voice in entry.voices for a in (voice.normalised, voice.raw) if a is not None]
    assert entry.total is not None
    assert {a.dtype for a in [*arrays, entry.total]} == {np.dtype(np.float32)}


def _sent_anew(objects: list[NodeObject]) -> Snapshot:
    """The nodes of a request that carries them: every text is a new one."""
    copies = msgspec.json.decode(msgspec.json.encode(objects), type=list[NodeObject])
    return Snapshot.build(copies, [])


def _shared_bytes(journal: Journal) -> int:
    shared: dict[int, Any] = {id(texts): texts for entry in journal.entries() for texts in entry.shared}
    return sum(map(shared_bytes, shared.values()))
