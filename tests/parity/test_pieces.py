"""The parts of the differential test that need no control plane: differences, shrinking, what is heard."""

from __future__ import annotations

import http.client
import json
from pathlib import Path

import pytest

from tests.parity.answer import GATED, PLACED, UNSCHEDULABLE, Answer, differences, reasons, told_reasons
from tests.parity.recorder import FeasibleNodes
from tests.parity.scheduler_log import ScheduledScores
from tests.parity.shrink import shrink
from tests.parity.world import Json, World

PLACED_ON_A = Answer(
    PLACED,
    frozenset({"a", "b"}),
    best=frozenset({"a"}),
    scores={"TaintToleration": {"a": 300, "b": 300}, "NodeAffinity": {"a": 0, "b": 0}},
)


def placed(**changed: object) -> Answer:
    return Answer(**{**PLACED_ON_A.__dict__, **changed})


@pytest.mark.parametrize(
    ("ours", "about"),
    [
        pytest.param(placed(feasible=frozenset({"a"})), "feasible", id="a node too few"),
        pytest.param(placed(best=frozenset({"b"})), "best", id="another node is better"),
        pytest.param(
            placed(scores={"TaintToleration": {"a": 300, "b": 297}}), "score of TaintToleration", id="points"
        ),
        pytest.param(Answer(UNSCHEDULABLE, message="0/2 nodes are available: 2 x."), "outcome", id="no node"),
    ],
)
def test_what_differs_is_found(ours: Answer, about: str) -> None:
    assert differences(PLACED_ON_A, ours)[0].startswith(about)


@pytest.mark.parametrize(
    "ours",
    [
        pytest.param(placed(best=frozenset({"a", "b"})), id="one of several best nodes was taken"),
        pytest.param(
            placed(scores={"TaintToleration": {"a": 300, "b": 300}}),
            id="no points and no opinion are the same",
        ),
    ],
)
def test_what_does_not_matter_is_not_a_difference(ours: Answer) -> None:
    assert not differences(PLACED_ON_A, ours)


def test_a_message_is_compared_word_for_word() -> None:
    kube = Answer(UNSCHEDULABLE, message="0/2 nodes are available: 2 Insufficient cpu.")
    ours = Answer(UNSCHEDULABLE, message="0/2 nodes are available: 2 insufficient cpu.")

    assert differences(kube, ours)
    assert not differences(Answer(GATED, message="one text"), Answer(GATED, message="another"))


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param("", id="nothing"),
        pytest.param(" preemption: 0/1 nodes are available: 1 No preemption victims found.", id="preemption"),
        pytest.param(" no new claims to deallocate, preemption: not eligible.", id="claims"),
        pytest.param(" not found", id="a PostFilter plugin without its state"),
    ],
)
def test_what_is_said_of_eviction_is_left_out(tail: str) -> None:
    text = '0/1 nodes are available: 1 Insufficient cpu, persistentvolumeclaim "a" not found.'

    assert reasons(text + tail) == text
    assert told_reasons(text) == ["Insufficient cpu", "persistentvolumeclaim  not found"]


def test_scores_are_read_as_the_log_grows(tmp_path: Path) -> None:
    log = tmp_path / "log"
    line = 'I1 x.go:1] "Plugin scored node for pod" pod="{}" plugin="NodeAffinity" node="{}" score={}\n'
    log.write_text("noise\n" + line.format("ns/p", "a", 200) + line.format("ns/p", "b", 0)[:60])
    scores = ScheduledScores(log)
    assert scores.take("ns/p") == {"NodeAffinity": {"a": 200}}

    with log.open("a") as file:
        file.write(line.format("ns/p", "b", 0)[60:] + line.format("ns/q", "b", -3))
    assert scores.take("ns/q") == {"NodeAffinity": {"b": -3}}


def test_the_recorder_lets_every_node_pass_and_remembers() -> None:
    with FeasibleNodes() as feasible:
        connection = http.client.HTTPConnection(feasible.entry()["urlPrefix"].removeprefix("http://"))
        pod = {"metadata": {"namespace": "ns", "name": "p"}}
        connection.request("POST", "/filter", body=json.dumps({"Pod": pod, "NodeNames": ["a", "b"]}))
        answer = json.loads(connection.getresponse().read())
        connection.close()

        assert answer == {"nodenames": ["a", "b"]}
        assert feasible.take("ns/p") == {"a", "b"}
        assert feasible.take("ns/p") == frozenset()


def _object(kind: str, name: str, **more: object) -> Json:
    return {"kind": kind, "metadata": {"name": name}, **more}


def test_a_case_shrinks_to_what_makes_it_differ() -> None:
    nodes = [_object("Node", f"node-{number}") for number in range(8)]
    pods = [_object("Pod", f"pod-{number}", spec={"nodeName": f"node-{number}"}) for number in range(8)]
    pod = _object(
        "Pod",
        "case",
        spec={
            "containers": [{"name": "main", "ports": [1]}],
            "hostNetwork": True,
            "nodeSelector": {"a": "b"},
        },
    )

    def differs(world: World, tried: Json) -> bool:
        names = {one["metadata"]["name"] for one in world.objects}
        return {"node-5", "pod-5"} <= names and "hostNetwork" in tried["spec"]

    world, small = shrink(World((*nodes, *pods, _object("Service", "s"))), pod, differs)

    assert {one["metadata"]["name"] for one in world.objects} == {"node-5", "pod-5"}
    assert small["spec"] == {"containers": [{"name": "main"}], "hostNetwork": True}


def test_shrinking_ends_after_so_many_trials() -> None:
    tried = []

    def differs(world: World, pod: Json) -> bool:
        tried.append(pod)
        return False

    nodes = tuple(_object("Node", f"node-{number}") for number in range(100))
    shrink(World(nodes), _object("Pod", "case", spec={"containers": []}), differs, trials=7)

    assert len(tried) == 7
