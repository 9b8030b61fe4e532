"""Record, replay: every answer is the same, byte for byte, or the difference is named."""

import gzip
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayplan.config.flags import Flags, load_all
from bayplan.engine.guard import Failure
from bayplan.recording.sink import older
from bayplan.runtimes.simulator.cases import Recording
from bayplan.snapshot.sources import Reading, Readings, Source
from bayplan.testing import make_cluster, make_node, make_pod
from tests.runtimes.simulator.desk import POLICY, Desk, sent, sent_pod, write_config

NAMES = [f"node-{number}" for number in range(8)]


def filled(desk: Desk, nodes: int = 3) -> Desk:
    for name in NAMES[:nodes]:
        desk.cache.put_node(make_node(name, labels={"disk": "ssd"}).object)
    return desk


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), packed=st.booleans())
def test_whatever_was_asked_and_whatever_changed_is_answered_the_same_again(
    tmp_path_factory: pytest.TempPathFactory, seed: int, packed: bool
) -> None:
    folder = tmp_path_factory.mktemp("recorded")
    dice = random.Random(seed)
    desk = filled(Desk(write_config(folder), folder / ("r.jsonl.gz" if packed else "r.jsonl")))
    for step in range(40):
        _something_happens(desk, dice, step)
        _somebody_asks(desk, dice, step)

    found = desk.replayed()

    assert found.differences == []
    assert found.warnings == []
    assert found.total == desk.counted.count("written") >= 40
    assert set(desk.counted) == {"written"}


def _something_happens(desk: Desk, dice: random.Random, step: int) -> None:
    cache, name = desk.cache, dice.choice(NAMES)
    pod = make_pod(
        f"p{dice.randrange(20)}",
        uid=f"uid-{step}",
        cpu=dice.choice(["100m", "1", "3"]),
        labels={"app": dice.choice(["a", "b", "c"])},
        node=dice.choice([None, name]),
        phase=dice.choice(["Running", "Running", "Succeeded", None]),
    )
    happenings: list[Callable[[], object]] = [
        lambda: cache.put_node(make_node(name, cpu=dice.randrange(1, 9)).object),
        lambda: cache.drop_node(name),
        lambda: cache.put_pod(pod),
        lambda: cache.put_pod(pod),
        lambda: cache.drop_pod(f"default/p{dice.randrange(20)}"),
        lambda: desk.bind(make_pod(f"b{step}", uid=f"bind-{step}", cpu="500m", labels={"app": "d"}), name),
    ]
    for happens in dice.sample(happenings, dice.randrange(4)):
        happens()


def _somebody_asks(desk: Desk, dice: random.Random, step: int) -> None:
    labels = {"app": dice.choice(["a", "b"]), "day": dice.choice(["only", "any"])}
    pod = make_pod(f"w{step}", uid=f"w-{step}", cpu=dice.choice(["50m", "2"]), labels=labels)
    names = dice.sample(NAMES, dice.randrange(len(NAMES) + 1))
    verb = dice.choice(["filter", "prioritize", "preempt", "full"])
    if verb == "preempt":
        there = [p for p in desk.cache.snapshot().pods if p.node_name]
        victims = {p.node_name: {"Pods": [{"UID": p.uid}], "NumPDBViolations": 1} for p in there}
        desk.ask("preempt", {"Pod": sent_pod(pod), "NodeNameToMetaVictims": victims})
    elif verb == "full":
        items: list[Any] = [msgspec.to_builtins(make_node(name, cpu=step + 1).object) for name in names]
        body = {"Pod": sent_pod(pod), "Nodes": {"metadata": {"x": "y\n"}, "items": items}, "NodeNames": None}
        desk.ask(dice.choice(["filter", "prioritize"]), body)
    else:
        desk.ask(verb, sent(pod, names))


def test_nothing_of_a_pod_that_may_be_secret_is_in_the_file(tmp_path: Path) -> None:
    desk = filled(Desk(write_config(tmp_path), tmp_path / "r.jsonl"))
    victim = {"Pods": [sent_pod(make_pod("v", uid="v", node="node-0"))], "NumPDBViolations": 0}
    desk.ask("filter", sent(make_pod("web"), NAMES[:3]))
    desk.ask("preempt", {"Pod": sent_pod(make_pod("web")), "NodeNameToVictims": {"node-0": victim}})

    assert desk.replayed().total == 2
    text = desk.file.read_text()
    assert '"web"' in text
    assert "hunter2" not in text
    assert "PASSWORD" not in text


def test_full_nodes_are_echoed_as_they_came_and_told_once(tmp_path: Path) -> None:
    large = (
        "import bayplan\n\n@bayplan.filter\ndef large(pod, nodes):\n    return nodes['cpu.allocatable'] > 1\n"
    )
    desk = Desk(write_config(tmp_path, policy=large), tmp_path / "r.jsonl")
    odd = b'{ "metadata" : {"name":"a","x":1.50},\n "status":{"allocatable":{"cpu":"4"}},"u":"\\u00e4" }'
    pod = b'{"metadata":{"name":"p","uid":"u"},"spec":{"containers":[]}}'
    body = b'{"Pod":%s,"Nodes":{"metadata":{"resourceVersion":\n"7"},"items":[%s]},"NodeNames":null}'

    answers = {desk.ask("filter", body % (pod, odd), blind=True) for _ in range(3)}

    assert odd in answers.pop()
    assert not answers
    assert desk.replayed().equal == {"filter": 3}
    assert desk.file.read_text().count('"line":"node"') == 1


def test_a_policy_that_overran_is_not_run_again_but_fails_as_it_did(tmp_path: Path) -> None:
    endless = "import bayplan\n\n@bayplan.filter\ndef endless(pod, node):\n    while True: pass\n"
    desk = filled(Desk(write_config(tmp_path, policy=endless), tmp_path / "r.jsonl"))
    late = Failure("overrun", "policy.py:3 endless: still running after 1.0 s", "policy took too long")

    answer = desk.ask("filter", sent(make_pod("web"), NAMES[:3]), given_up={"policy": late})

    assert b"still running" in answer
    assert desk.replayed().equal == {"filter": 1}


def test_a_policy_that_raises_raises_again(tmp_path: Path) -> None:
    broken = "import bayplan\n\n@bayplan.filter\ndef broken(pod, node):\n    return 1 // 0\n"
    desk = filled(Desk(write_config(tmp_path, policy=broken), tmp_path / "r.jsonl"))

    assert b"ZeroDivisionError" in desk.ask("filter", sent(make_pod("web"), NAMES[:3]))
    assert desk.replayed().equal == {"filter": 1}


READS = """
import bayplan
from bayplan import Source

P95 = Source("p95")
BUSY = P95.latched(above=0.5, below=0.2)
SLOW = bayplan.Reason("slow")

@bayplan.filter
def fast(pod, nodes):
    return SLOW.where(nodes[BUSY])

@bayplan.score(best="low")
def fastest(pod, nodes):
    return nodes[P95] + nodes.growth("cpu", since=P95)
"""


def test_sources_are_what_they_were(tmp_path: Path) -> None:
    config = write_config(tmp_path, policy=READS)
    config.write_text(config.read_text() + "sources:\n- {name: p95, file: {path: p95.json}}\n")
    desk = filled(Desk(config, tmp_path / "r.jsonl"))
    busy = Source("p95").latched(above=0.5, below=0.2)
    before = desk.cache.snapshot().nodes.requested_now
    desk.cache.put_pod(make_pod("new", node="node-0", cpu="1"))
    odd = {"node-0": 0.3, "node-1": 0.4, "node-2": 10**400}
    said = Readings({"p95": Reading({"": odd}, 1, latched={busy: frozenset({"node-0"})}, before=before)})

    first = desk.ask("filter", sent(make_pod("web"), NAMES[:3]), readings=said)
    for _ in range(3):
        second = desk.ask("prioritize", sent(make_pod("web"), NAMES[:3]), readings=said)

    assert b'{"Host":"node-1","Score":10}' in second
    assert b'"FailedAndUnresolvableNodes":{"node-0":"slow"}' in first
    assert desk.replayed().equal == {"filter": 1, "prioritize": 3}
    assert desk.file.read_text().count('"line":"source"') == 1


def test_a_cluster_from_a_file_keeps_the_order_of_its_pods(tmp_path: Path) -> None:
    first = (
        "import bayplan\n\n@bayplan.filter\ndef first(pod, node, cluster):\n    return cluster.pods[0].name\n"
    )
    desk = Desk(write_config(tmp_path, policy=first), tmp_path / "r.jsonl")
    nodes = [make_node("node-0"), make_node("node-1")]
    cluster = make_cluster(nodes, [make_pod("z", node="node-1"), make_pod("a", node="node-0")])

    answer = desk.ask("filter", sent(make_pod("web"), ["node-0"]), cluster=cluster)

    assert b'{"node-0":"z"}' in answer
    assert desk.replayed().equal == {"filter": 1}


def test_observing_is_replayed_as_observing(tmp_path: Path) -> None:
    desk = filled(Desk(write_config(tmp_path), tmp_path / "r.jsonl", observe=True))

    answer = desk.ask("filter", sent(make_pod("large", cpu="100"), NAMES[:3]))

    assert b'"NodeNames":["node-0","node-1","node-2"]' in answer
    assert desk.replayed().equal == {"filter": 1}


def test_after_a_reload_each_decision_is_with_its_own_configuration(tmp_path: Path) -> None:
    desk = filled(Desk(write_config(tmp_path), tmp_path / "r.jsonl"))
    before = desk.told
    for told in (before, msgspec.structs.replace(before, generation=2, observe=True), before):
        desk.told, desk.verbs.observe = told, told.observe
        desk.ask("filter", sent(make_pod("large", cpu="100"), NAMES[:3]))

    assert desk.replayed().equal == {"filter": 3}
    assert [c.generation for c in Recording(desk.file).configurations()] == [1, 2]


def test_other_policies_are_found_out_with_the_place_where_answers_part(tmp_path: Path) -> None:
    desk = filled(Desk(write_config(tmp_path), tmp_path / "r.jsonl"))
    desk.ask("filter", sent(make_pod("web", cpu="100m"), NAMES[:3]))
    desk.ask("filter", sent(make_pod("large", cpu="100"), NAMES[:3]))
    other = write_config(tmp_path / "other", policy=POLICY.replace("too little CPU", "no room"))

    found = desk.replayed(load_all((), Flags(config=other)))

    assert found.equal == {"filter": 1}
    (difference,) = found.differences
    assert (difference.verb, difference.pod, difference.number) == ("filter", "default/large", 2)
    assert "too little CPU" in difference.recorded
    assert "no room" in difference.replayed


def test_another_answer_with_full_nodes_is_found_out(tmp_path: Path) -> None:
    desk = filled(Desk(write_config(tmp_path), tmp_path / "r.jsonl"))
    nodes = [msgspec.to_builtins(make_node(name).object) for name in NAMES[:2]]
    body = {"Pod": sent_pod(make_pod("web", cpu="5")), "Nodes": {"items": nodes}, "NodeNames": None}
    desk.ask("filter", body)
    other = write_config(tmp_path / "other", policy=POLICY.replace("free < pod.cpu_milli", "free < 0"))

    found = desk.replayed(load_all((), Flags(config=other)))

    assert "too little CPU" in found.differences[0].recorded
    assert "too little CPU" not in found.differences[0].replayed


def test_a_changed_answer_at_bind_is_found_out(tmp_path: Path) -> None:
    desk = filled(Desk(write_config(tmp_path), tmp_path / "r.jsonl"))
    for number in range(2):
        desk.bind(make_pod(f"twin-{number}", uid=f"t{number}", labels={"app": "a"}), "node-0")
    other = write_config(tmp_path / "other", policy=POLICY.replace("a twin is there", "twins"))

    found = desk.replayed(load_all((), Flags(config=other)))

    assert found.equal == {"commit": 1}
    assert "a twin is there" in found.differences[0].recorded


def test_the_file_is_readable_after_a_kill(tmp_path: Path) -> None:
    desk = filled(Desk(write_config(tmp_path), tmp_path / "r.jsonl.gz"))
    for number in range(50):
        desk.ask("filter", sent(make_pod(f"web-{number}"), NAMES[:3]))
    desk.recorder.close()
    whole = desk.file.read_bytes()
    assert gzip.decompress(whole).count(b'"line":"asked"') == 50
    desk.file.write_bytes(whole[:-200])

    found = desk.replayed()

    assert 1 <= found.equal["filter"] < 50
    assert found.differences == []
    assert found.warnings == ["the file has no end: the server was killed, or still writes it"]


def test_damage_costs_what_comes_after_it_until_all_is_told_anew(tmp_path: Path) -> None:
    desk = filled(Desk(write_config(tmp_path), tmp_path / "r.jsonl", snapshot_every_seconds=0.0))
    for number in range(3):
        desk.cache.put_pod(make_pod(f"new-{number}", node="node-0"))
        desk.ask("filter", sent(make_pod(f"web-{number}"), NAMES[:3]))
    desk.recorder.close()
    lines = desk.file.read_text().splitlines(keepends=True)
    second = [number for number, line in enumerate(lines) if '"line":"cluster"' in line][1]
    lines[second] = lines[second][:40] + "\n"
    desk.file.write_text("".join(lines))

    found = desk.replayed()

    assert found.equal == {"filter": 2}
    assert found.differences == []
    assert len(found.warnings) == 2
    assert f"line {second + 1}" in found.warnings[0]


def test_a_full_file_is_kept_once_and_both_can_be_replayed(tmp_path: Path) -> None:
    desk = filled(Desk(write_config(tmp_path), tmp_path / "r.jsonl", max_bytes=100_000))
    for number in range(400):
        desk.ask("filter", sent(make_pod(f"web-{number}"), NAMES[:3]))

    newest = desk.replayed()
    sizes = [path.stat().st_size for path in (desk.file, older(desk.file))]
    desk.file = older(desk.file)
    before = desk.replayed()

    assert all(size < 105_000 for size in sizes)
    assert newest.differences == before.differences == []
    assert 0 < newest.total + before.total <= 400
    assert {path.name for path in tmp_path.glob("r.jsonl*")} == {"r.jsonl", "r.jsonl.1"}
