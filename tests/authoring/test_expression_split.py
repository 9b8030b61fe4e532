"""Expressions that compare nodes with the pod are taken apart, and say what they say as a whole."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.authoring.cel import split
from bayplan.authoring.cel.compile import compile_expression
from bayplan.authoring.cel.evaluate import Evaluator
from bayplan.kube.pod import Pod
from bayplan.snapshot.table import NodeTable
from bayplan.testing import make_cluster, make_node, make_pod

NODE_RACK = "node.metadata.labels[?'rack'].orValue('')"
POD_RACK = "pod.metadata.labels[?'rack'].orValue('')"

# Some of them fail on some objects, and some are of kinds that are not compared apart.
OF_NODE = (
    NODE_RACK,
    "node.metadata.labels['rack']",
    "node.metadata.name",
    "node.metadata.labels",
    "node.spec.unschedulable",
    "node.spec.taints.map(t, t.key)",
    "node.spec.taints[0].key",
    "node.spec.taints.exists(t, t.key == 'a')",
    "size(node.metadata.labels)",
    "'a'",
)
OF_POD = (
    POD_RACK,
    "pod.metadata.labels['rack']",
    "pod.metadata.labels[?'rack']",
    "pod.metadata.labels",
    "pod.metadata.labels.map(k, k)",
    "pod.spec.priority",
    "pod.spec.priority > 5",
    "dyn(pod.spec.priority)",
    "[pod.metadata.name, 'b']",
    "[dyn(1), dyn(pod.metadata.name)]",
)
VALUES = st.sampled_from(["a", "b", "c", ""])
LABELS = st.dictionaries(st.sampled_from(["rack", "a", "b"]), VALUES, max_size=3)


def compared(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, st.sampled_from(["&&", "||"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda text: f"!({text})"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} ? {t[1]} : {t[2]})"),
    )


SIDES = st.tuples(st.sampled_from(OF_NODE), st.sampled_from(OF_POD))
COMPARISONS = st.one_of(
    st.tuples(SIDES, st.sampled_from(["==", "!=", "in"])).map(
        lambda t: f"(dyn({t[0][0]}) {t[1]} dyn({t[0][1]}))"
    ),
    st.tuples(SIDES, st.sampled_from(["==", "!=", "in"])).map(
        lambda t: f"(dyn({t[0][1]}) {t[1]} dyn({t[0][0]}))"
    ),
    st.sampled_from([*OF_NODE, *OF_POD]).map(lambda text: f"dyn({text})"),
)
EXPRESSIONS = st.recursive(COMPARISONS, compared, max_leaves=5)
NODES = st.lists(
    st.builds(
        lambda labels, taints, cordoned: (labels, taints, cordoned),
        LABELS,
        st.lists(VALUES.filter(bool), max_size=2),
        st.booleans(),
    ),
    min_size=1,
    max_size=4,
)
PODS = st.lists(st.tuples(LABELS, st.sampled_from([0, 7])), min_size=1, max_size=3)


def evaluator(text: str, *, apart: bool = True) -> Evaluator:
    made = Evaluator(
        compile_expression(text, ("pod", "node", "column")), policy="p", where="x", wanted=(bool,)
    )
    if not apart:
        made._rule = None
    return made


def table(*nodes: tuple[dict[str, str], list[str], bool]) -> NodeTable:
    return make_cluster(
        [
            make_node(
                f"n{row}",
                labels=labels,
                taints=[{"key": key, "effect": "NoSchedule"} for key in taints],
                unschedulable=cordoned,
            )
            for row, (labels, taints, cordoned) in enumerate(nodes)
        ]
    ).nodes


def said(asked: Evaluator, pod: Pod, nodes: NodeTable) -> Any:
    """The answers, or what went wrong, to the letter."""
    try:
        return asked.over(pod, nodes).tolist()
    except Exception as error:
        return type(error), str(error), getattr(error, "__notes__", None)


@settings(max_examples=100, deadline=None)
@given(text=EXPRESSIONS, nodes=NODES, pods=PODS)
def test_taken_apart_it_says_what_it_says_as_a_whole(text: str, nodes: Any, pods: Any) -> None:
    apart, whole = evaluator(text), evaluator(text, apart=False)
    there = table(*nodes)
    for labels, priority in pods:
        pod = make_pod("a", labels=labels, priority=priority)
        assert said(apart, pod, there) == said(whole, pod, there)


TRUE, FALSE, FAILS = (
    f"(node.metadata.{what} pod.metadata.name)" for what in ("name !=", "name ==", "labels.rack ==")
)


@pytest.mark.parametrize("form", ["!{0}", "{0} && {1}", "{0} || {1}", "{0} ? {1} : {2}"])
def test_parts_that_are_true_false_or_fail_add_up_as_in_the_whole(form: str) -> None:
    nodes, pod = table(({}, [], False)), make_pod("pod")
    for parts in product((TRUE, FALSE, FAILS), repeat=form.count("{")):
        text = form.format(*parts)
        apart = evaluator(text)
        assert apart._rule is not None
        assert said(apart, pod, nodes) == said(evaluator(text, apart=False), pod, nodes), text


@pytest.mark.parametrize(
    ("text", "passed"),
    [
        pytest.param(f"{NODE_RACK} == {POD_RACK}", [True, False, False], id="equal"),
        pytest.param(f"{POD_RACK} != {NODE_RACK}", [False, True, True], id="unequal, the pod first"),
        pytest.param(f"{NODE_RACK} in ['c', {POD_RACK}]", [True, False, False], id="in a list of the pod"),
        pytest.param(f"{POD_RACK} in node.metadata.labels", [False, True, False], id="in a map of the node"),
        pytest.param(
            f"has(node.metadata.labels.rack) && node.metadata.labels.rack != {POD_RACK}",
            [False, True, False],
            id="a guard against what is not there",
        ),
        pytest.param(
            f"node.metadata.labels.rack == {POD_RACK} || !has(node.metadata.labels.rack)",
            [True, False, True],
            id="a guard that comes later",
        ),
        pytest.param(
            f"pod.spec.priority > 5 ? true : {NODE_RACK} == {POD_RACK}", [True, False, False], id="a choice"
        ),
    ],
)
def test_a_new_pod_does_not_run_it_on_every_node(
    text: str, passed: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = evaluator(text)
    nodes = table(({"rack": "a"}, [], False), ({"rack": "b", "a": "x"}, [], False), ({}, [], False))
    asked.over(make_pod("first", labels={"rack": "z"}), nodes)
    runs: list[dict[str, Any]] = []
    run = split._run

    def counting(program: Any, data: dict[str, Any]) -> Any:
        runs.append(data)
        return run(program, data)

    monkeypatch.setattr(split, "_run", counting)
    monkeypatch.setattr(Evaluator, "_run", lambda *_: pytest.fail("it was run as a whole"))

    assert asked.over(make_pod("second", labels={"rack": "a"}), nodes).tolist() == passed
    assert runs
    assert [list(data) for data in runs] == [["pod"]] * len(runs)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"({NODE_RACK} + {POD_RACK}) == 'aa'", id="both on one side"),
        pytest.param(f"['a'].exists(x, x == {NODE_RACK} && x == {POD_RACK})", id="both in a macro"),
        pytest.param(f"{NODE_RACK} == {POD_RACK} && column['cpu.free'] > 0", id="with a column"),
    ],
)
def test_what_cannot_be_taken_apart_is_run_as_a_whole(text: str) -> None:
    asked = evaluator(text)

    assert asked._rule is None
    nodes = table(({"rack": "a"}, [], False), ({"rack": "b"}, [], False))
    assert asked.over(make_pod(labels={"rack": "a"}), nodes).tolist() == [True, False]


def test_a_node_that_nobody_asks_about_may_fail() -> None:
    asked = evaluator(f"node.metadata.labels.rack == {POD_RACK}")
    nodes = table(({"rack": "a"}, [], False), ({}, [], False))
    part = nodes.take(nodes.origin[1][:1].astype(int))

    assert asked.over(make_pod(labels={"rack": "a"}), part).tolist() == [True]


def test_what_was_found_before_a_deadline_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = evaluator(f"node.metadata.name == {POD_RACK}")
    nodes = table(*[({}, [], False)] * 5)
    pod = make_pod(labels={"rack": "n3"})
    run, runs = split._run, []

    def ending(program: Any, data: dict[str, Any]) -> Any:
        runs.append(data)
        if len(runs) == 4:
            raise SystemExit
        return run(program, data)

    monkeypatch.setattr(split, "_run", ending)
    with pytest.raises(SystemExit):
        asked.over(pod, nodes)

    assert asked.over(pod, nodes).tolist() == [False, False, False, True, False]
    names = [data["node"]["metadata"]["name"] for data in runs if "node" in data]
    assert len(names) - len(set(names)) == 1, "only the one that was not finished is run again"


def test_what_was_found_about_nodes_that_are_gone_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "_SPARE", 0)
    side = split._NodeSide(compile_expression("node.metadata.name", ("node",)).program)

    for number in range(10):
        side.over((f'{{"metadata":{{"name":"n{number}"}}}}',))

    assert len(side._known) <= 2
