"""What is wrong with an expression is told when it is loaded: what, and where in it."""

import sys
from typing import Any

import msgspec
import pytest

from bayplan.authoring.cel.compile import CompileError, compile_expression
from bayplan.authoring.cel.compile import _environment as environment
from bayplan.authoring.cel.parts import Parts
from bayplan.kube.node import NodeObject
from bayplan.kube.pod import Pod

VARIABLES = ("pod", "node", "column")


def refusal(text: str) -> str:
    with pytest.raises(CompileError) as raised:
        compile_expression(text, VARIABLES)
    return str(raised.value)


@pytest.mark.parametrize(
    ("text", "error", "at"),
    [
        pytest.param(
            "nod.metadata.name == ''", "unknown name 'nod'; did you mean 'node'?", "nod", id="a variable"
        ),
        pytest.param(
            "1 == 1 && fleet.x",
            "unknown name 'fleet'; the variables are: pod, node, column",
            "fleet",
            id="none",
        ),
        pytest.param(
            "qantity('1').sign()",
            "unknown function 'qantity'; did you mean 'quantity'?",
            "qantity",
            id="a call",
        ),
        pytest.param(
            "node.metadata.name.startWith('a')", "did you mean 'startsWith'?", "startWith", id="a method"
        ),
        pytest.param(
            "has(node.metadata.labels['rack'])",
            "of a map ask whether it has the key: 'rack' in node.metadata.labels",
            "[",
            id="has() of a map",
        ),
        pytest.param(
            "column['load'] < 1.0", "no column 'load'; `bayplan columns` lists them.", "[", id="a source"
        ),
        pytest.param("pod.metadata.name ==", "it ends too early", "", id="half an expression"),
        pytest.param("1 == 1 and 2 == 2", "CEL has && for and", "and", id="and of Python"),
        pytest.param("1 == 1 or 2 == 2", "CEL has || for or", "or", id="or of Python"),
        pytest.param("not true", "CEL has ! for not", "true", id="not of Python"),
        pytest.param("1 if true else 2", "CEL has a ? b : c for if and else", "if", id="if of Python"),
        pytest.param(
            "pod.metadata.name =~ '^a'",
            "CEL has text.matches('^a') for =~",
            "=~",
            id="a match of other tools",
        ),
        pytest.param("pod.metadata.name = 'a'", "CEL compares with ==", "=", id="one equals sign"),
        pytest.param(
            "column['memory.free'] > 2Gi",
            "2Gi is no number: write it out, or compare quantities, quantity('2Gi')",
            "Gi",
            id="an amount with its unit",
        ),
        pytest.param(
            "node.metadata.labels.get('rack') == 'a'",
            "unknown function 'get'; write labels[?'rack'].orValue('') for labels.get('rack')",
            "get",
            id="get of Python",
        ),
        pytest.param(
            "node.metadata.labels.get( 'rack', 'none' ) == 'a'",
            "write labels[?'rack'].orValue('none') for labels.get( 'rack', 'none' )",
            "get",
            id="get of Python with a default",
        ),
        pytest.param(
            "len(node.spec.taints) == 0", "CEL has size(...) for len(...)", "len", id="len of Python"
        ),
        pytest.param("1 == 1 xor 2 == 2", "Syntax error", "xor", id="a word that nobody knows"),
        pytest.param(
            "1 + 'a' == 2", "no matching overload for '+' applied to '(int, string)'", "+", id="types"
        ),
        pytest.param(
            "double(column['cpu.free']) < 1",
            "whole numbers and decimals do not go together here; write double(...) around the whole number",
            "<",
            id="a whole number and a decimal",
        ),
        pytest.param(
            "pod.spec.nodeSelectr == {}",
            "not kept by Bayplan; did you mean 'nodeSelector'?",
            "nodeSelectr",
            id="typo",
        ),
        pytest.param(
            "pod.spec.hostname == ''",
            "pod.spec.hostname is not kept by Bayplan; these are: ",
            "hostname",
            id="field",
        ),
        pytest.param(
            "node.labels['rack'] == 'a'",
            "node.labels is not kept by Bayplan; did you mean node.metadata.labels?",
            "labels",
            id="a field of Python's node",
        ),
        pytest.param(
            "pod.resources.requests == {}",
            "did you mean pod.spec.resources or pod.status.resources?",
            "resources",
            id="a field of two parts of the pod",
        ),
        pytest.param(
            "has(node.status.images)", "node.status.images is not kept by Bayplan", "(", id="in has()"
        ),
        pytest.param(
            "pod.spec.?volumes.hasValue()",
            "pod.spec.volumes is not kept by Bayplan",
            "volumes",
            id="optional",
        ),
        pytest.param(
            "pod.spec.containers[0].env", "Container.env is not kept by Bayplan", "env", id="of an element"
        ),
        pytest.param(
            "pod.spec.containers.all(c, has(c.env))", "Container.env is not kept", "(", id="in a macro"
        ),
        pytest.param(
            "pod.spec.containers.filter(c, c.name == '')[0].ports",
            "Container.ports is not kept",
            "ports",
            id="of what a macro found",
        ),
        pytest.param(
            "(pod.spec.containers + pod.spec.initContainers).exists(c, has(c.env))",
            "Container.env is not kept",
            "(",
            id="of two lists together",
        ),
        pytest.param(
            "pod.spec.?containers.orValue([]).exists(c, has(c.env))",
            "Container.env is not kept",
            "(",
            id="behind an optional",
        ),
        pytest.param(
            "node == node",
            "node is a whole object; read one of its fields: metadata",
            "node",
            id="a whole node",
        ),
        pytest.param(
            "size(pod.metadata) > 1", "pod.metadata is a whole object", "metadata", id="a whole part"
        ),
        pytest.param(
            "node.metadata.name.x == 1", "node.metadata.name has no field 'x'", "x", id="below a text"
        ),
        pytest.param(
            "pod.spec.containers.name == ''", "it is a list; name one, as in [0]", "name", id="below a list"
        ),
        pytest.param(
            "column['cpu.fre'] > 1", "no column 'cpu.fre'; did you mean 'cpu.free'?", "[", id="a column"
        ),
        pytest.param(
            "'zoen' in column", "no column 'zoen'; did you mean 'zone'?", "column", id="a column in `in`"
        ),
        pytest.param(
            "column.size() > 1", "name the column, as in column['cpu.free']", "column", id="all columns"
        ),
    ],
)
def test_an_error_says_what_and_shows_where(text: str, error: str, at: str) -> None:
    said, shown, pointer = refusal(text).split("\n")

    assert error in said
    assert shown.strip() == text
    from_there = shown[pointer.index("^") :]
    assert from_there.startswith(at) if at else from_there == ""
    assert pointer.strip() == "^"


def test_of_several_lines_the_right_one_is_shown() -> None:
    assert refusal("true\n  && nod.x\n  && true").split("\n")[1:] == ["      && nod.x", "         ^"]


def test_of_a_long_line_the_part_around_the_place_is_shown() -> None:
    said = refusal(" && ".join(["node.metadata.name == 'x'"] * 10) + " && nod.y == 1").split("\n")

    assert len(said[1]) <= 104
    assert said[1][said[2].index("^") :].startswith("nod.y")


def test_without_the_library_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    environment.cache_clear()

    assert 'pip install "bayplan[cel]"' in refusal("true")


FULL: dict[str, Any] = {
    "metadata": {
        "name": "n",
        "uid": "u",
        "labels": {"rack": "a", "zone": "b"},
        "annotations": {"x": "y"},
        "ownerReferences": [{"kind": "Job", "name": "j", "uid": "1", "controller": True}],
    },
    "spec": {
        "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
        "unschedulable": True,
        "providerID": "example:///n",
    },
    "status": {
        "allocatable": {"cpu": "4", "memory": "1Gi"},
        "capacity": {"cpu": "4"},
        "conditions": [{"type": "Ready", "status": "True"}],
        "nodeInfo": {"kubeletVersion": "v1.30.1", "architecture": "arm64"},
    },
}


@pytest.mark.parametrize(
    "text",
    [
        "node.metadata.labels.rack + node.metadata.labels['zone'] + node.metadata.name",
        "node.metadata.labels == {'rack': 'a', 'zone': 'b'} && node.metadata.labels.rack == 'a'",
        "node.spec.taints.map(t, t.key + t.value + t.effect)",
        "node.metadata.labels.map(k, node.metadata.labels[k])",
        "node.status.conditions.filter(c, c.status == 'True')[0].type",
        "has(node.metadata) && has(node.metadata.annotations) && has(node.metadata.annotations.x)",
        "has(node.spec.providerID) && !has(node.metadata.labels.other)",
        "node.spec.providerID + node.status.nodeInfo.architecture",
        "node.status.?nodeInfo.kubeletVersion.orValue('')",
        "node.metadata.?annotations[?'x'].optMap(v, v + '!').orValue('')",
        "'cpu' in node.status.allocatable && !('gpu' in node.status.capacity)",
        "node.spec.unschedulable ? node.status.allocatable['cpu'] : node.status.capacity['cpu']",
        "[node.metadata.ownerReferences, []][0][0].controller",
    ],
)
def test_the_parts_that_are_read_are_all_that_is_needed(text: str) -> None:
    compiled = compile_expression(text, VARIABLES)
    node = msgspec.convert(FULL, NodeObject)

    parts = Parts("node", compiled.reads.paths["node"], compiled.reads.tested)

    some = compiled.program.eval(data={"node": msgspec.json.decode(parts.text(node))})
    everything = compiled.program.eval(data={"node": FULL})
    assert some.type().name() != "ERROR", some.value()
    assert some.plain_value() == everything.plain_value()


def test_a_part_leaves_the_rest_out() -> None:
    reads = compile_expression("'a' == pod.metadata.labels['a']", ("pod",)).reads

    text = Parts("pod", reads.paths["pod"]).text(msgspec.convert({"metadata": FULL["metadata"]}, Pod))

    assert text == '{"metadata":{"labels":{}}}'


def test_a_quantity_in_a_manifest_written_by_hand_is_a_text() -> None:
    node = msgspec.convert({"status": {"allocatable": {"cpu": 4}}}, NodeObject)

    assert Parts("node", frozenset({("status", "allocatable", "cpu")})).text(node) == (
        '{"status":{"allocatable":{"cpu":"4"}}}'
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[1].all(node, .node.metadata.name == 'a')", id="all"),
        pytest.param("['a'].map(pod, pod + pod) == []", id="map"),
        pytest.param("[1].exists(x, [2].exists(column, .column['cpu.free'] > 0))", id="inside of another"),
        pytest.param("node.metadata.labels[?'a'].optMap(node, node == 'b').orValue(true)", id="optMap"),
        pytest.param("node.metadata.?labels.optFlatMap(pod, pod[?'a']).orValue('') == ''", id="optFlatMap"),
        pytest.param("[1].all(victim, victim == 1)", id="one that is not there"),
    ],
)
def test_a_variable_of_a_macro_must_not_hide_one_of_ours(text: str) -> None:
    """``.node`` would still mean the node, and what it reads would be missed."""
    name = next(name for name in ("victim", "column", "node", "pod") if f"({name}, " in text)

    assert f"{name!r} is a variable already; call the one of this macro otherwise" in refusal(text)
