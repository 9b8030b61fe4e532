"""Every form that a hook may answer in becomes one verdict or one score a node; no other form does."""

import functools
import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayplan
from bayplan import Reason, Score, Verdict
from bayplan.authoring import lift
from bayplan.authoring.hooks import HOOK
from bayplan.authoring.lift import BadResult, UnknownNode
from bayplan.authoring.registry import Hook
from bayplan.engine.cycle import Question, filter_nodes
from bayplan.engine.journal import Journal
from bayplan.snapshot.table import NodeTable
from bayplan.testing import make_cluster, make_node, make_pod
from bayplan.testing.run import ready

NODES = make_cluster(["one", "two", "three"]).nodes
FULL = Reason("full")
FULL_WITH = Reason("full", detail="{free} free")


def hook(decorate: Callable[..., Any], answer: Any, *, per_node: bool) -> Hook:
    """A hook called ``rule`` that gives this answer, or calls it with the node or the table."""

    def rule_of_node(pod: Any, node: Any) -> Any:
        return answer(node) if callable(answer) else answer

    def rule_of_table(pod: Any, nodes: Any) -> Any:
        return answer(nodes) if callable(answer) else answer

    function = decorate(rule_of_node if per_node else rule_of_table)
    return Hook("policy", "rule", getattr(function, HOOK), function)


def by_name_alone(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that somebody wrote: hooks get their arguments by name, so it takes no others."""

    @functools.wraps(function)
    def inside(**given: Any) -> Any:
        return function(**given)

    return inside


def node_and_pod(node: Any, pod: Any) -> Any:
    return f"{pod.name} not on {node.name}"


def pod_and_node(pod: Any, node: Any) -> Any:
    return node_and_pod(node, pod)


def node_by_name(pod: Any, *, node: Any) -> Any:
    return node_and_pod(node, pod)


def own_between(pod: Any, between: str = " not on ", node: Any = None) -> Any:
    return f"{pod.name}{between}{node.name}"


class OfAClass:
    @bayplan.filter
    def rule(self, pod: Any, node: Any) -> Any:
        return node_and_pod(node, pod)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(node_and_pod, id="node first"),
        pytest.param(pod_and_node, id="node last"),
        pytest.param(node_by_name, id="node by name alone"),
        pytest.param(own_between, id="a parameter of its own before it"),
        pytest.param(by_name_alone(pod_and_node), id="decorated"),
        pytest.param(OfAClass().rule, id="a method"),
    ],
)
def test_a_hook_of_one_node_takes_its_parameters_in_any_order(function: Callable[..., Any]) -> None:
    spec = getattr(function, HOOK, None) or getattr(bayplan.filter(function), HOOK)

    said = lift.verdict(Hook("policy", "rule", spec, function), {"pod": make_pod("web"), "nodes": NODES})

    assert reasons(said) == {name: f"web not on {name}" for name in ("one", "two", "three")}


def verdict(answer: Any, *, per_node: bool, nodes: NodeTable = NODES) -> Verdict:
    rule = hook(bayplan.filter, answer, per_node=per_node)
    return lift.verdict(rule, {"pod": make_pod(), "nodes": nodes})


def scores(answer: Any, *, per_node: bool, nodes: NodeTable = NODES) -> Score:
    rule = hook(bayplan.score, answer, per_node=per_node)
    said = lift.scores(rule, {"pod": make_pod(), "nodes": nodes})
    # No opinion about any node, said as such.
    return Score(np.full(len(nodes), np.nan)) if said is None else said


@pytest.mark.parametrize("nothing", [pytest.param(np.nan, id="NaN"), pytest.param(None, id="None")])
def test_a_table_about_which_there_is_no_opinion_is_not_filled_with_none(nothing: Any) -> None:
    rule = hook(bayplan.score, nothing, per_node=False)

    assert lift.scores(rule, {"pod": make_pod(), "nodes": NODES}) is None


def reasons(said: Verdict, nodes: NodeTable = NODES) -> dict[str, str]:
    """The text for each refused node."""
    found = {name: said.reason(row) for row, name in enumerate(nodes.names)}
    return {name: reason.text for name, reason in found.items() if reason}


EVERYBODY = ["one", "two", "three"]


@pytest.mark.parametrize(
    ("answer", "refused"),
    [
        pytest.param(None, {}, id="None passes"),
        pytest.param(True, {}, id="True passes"),
        pytest.param(np.True_, {}, id="a true of NumPy passes"),
        pytest.param(False, dict.fromkeys(EVERYBODY, "rule"), id="False refuses with the hook's name"),
        pytest.param(np.False_, dict.fromkeys(EVERYBODY, "rule"), id="a false of NumPy refuses"),
        pytest.param("no", dict.fromkeys(EVERYBODY, "no"), id="a text refuses"),
        pytest.param("", dict.fromkeys(EVERYBODY, "rule"), id="an empty text refuses all the same"),
        pytest.param(FULL, dict.fromkeys(EVERYBODY, "full"), id="a Reason refuses"),
        pytest.param(lambda node: node.name != "two", {"two": "rule"}, id="each node for itself"),
    ],
)
def test_a_filter_of_one_node(answer: Any, refused: dict[str, str]) -> None:
    assert reasons(verdict(answer, per_node=True)) == refused


@pytest.mark.parametrize(
    ("answer", "refused"),
    [
        pytest.param(None, {}, id="None passes all"),
        pytest.param(True, {}, id="True passes all"),
        pytest.param(False, dict.fromkeys(EVERYBODY, "rule"), id="False refuses all"),
        pytest.param("no", dict.fromkeys(EVERYBODY, "no"), id="a text refuses all"),
        pytest.param(FULL, dict.fromkeys(EVERYBODY, "full"), id="a Reason refuses all"),
        pytest.param(np.array([True, False, True]), {"two": "rule"}, id="a bool array, true passes"),
        pytest.param(FULL.where([False, True, False]), {"two": "full"}, id="a verdict"),
        pytest.param(FULL.where(True), dict.fromkeys(EVERYBODY, "full"), id="a verdict of one bit for all"),
        pytest.param(
            FULL.where([False, True, False]) | Reason("far").where(True),
            {"one": "far", "two": "full", "three": "far"},
            id="two verdicts joined",
        ),
        pytest.param({}, {}, id="an empty dict"),
        pytest.param(
            {"one": "no", "two": None, "three": FULL},
            {"one": "no", "three": "full"},
            id="a dict of node name to reason",
        ),
        pytest.param({"two": False, "one": True}, {"two": "rule"}, id="a dict of node name to bool"),
    ],
)
def test_a_filter_of_the_table(answer: Any, refused: dict[str, str]) -> None:
    assert reasons(verdict(answer, per_node=False)) == refused


def test_equal_words_about_several_nodes_are_one_reason() -> None:
    made_anew = iter(["".join(["no", " disk"]) for _ in range(3)])

    said = verdict(lambda _: next(made_anew), per_node=True)

    assert said.reasons == (Reason("no disk"),)
    assert said.codes.tolist() == [1, 1, 1]


def test_words_that_come_again_after_others_are_the_same_reason() -> None:
    answers = iter(["no disk", Reason("full"), "no disk"])

    said = verdict(lambda _: next(answers), per_node=True)

    assert said.reasons == (Reason("no disk"), Reason("full"))
    assert said.codes.tolist() == [1, 2, 1]


def test_a_node_passes_after_one_that_was_refused() -> None:
    answers = iter([False, np.True_, False])

    assert verdict(lambda _: next(answers), per_node=True).codes.tolist() == [1, 0, 1]


def test_a_verdict_keeps_the_numbers_behind_it() -> None:
    said = verdict(FULL_WITH.where([False, True, False], free=np.array([1, 2, 3])), per_node=False)

    assert said.detail(1) == "2 free"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(3, [3.0, 3.0, 3.0], id="a whole number"),
        pytest.param(0.5, [0.5, 0.5, 0.5], id="a float"),
        pytest.param(np.int64(3), [3.0, 3.0, 3.0], id="a number of NumPy"),
        pytest.param(True, [1.0, 1.0, 1.0], id="a bool is 0 or 1"),
        pytest.param(lambda node: len(node.name), [3.0, 3.0, 5.0], id="each node for itself"),
        pytest.param(
            lambda node: {"one": 1, "two": 0.5, "three": np.float32(2)}[node.name],
            [1.0, 0.5, 2.0],
            id="of several types",
        ),
    ],
)
def test_a_score_of_one_node(answer: Any, expected: list[float]) -> None:
    given = scores(answer, per_node=True).scores

    assert given.dtype == np.float64
    assert given.tolist() == expected


@pytest.mark.parametrize("answer", [pytest.param(None, id="None"), pytest.param(math.nan, id="NaN")])
@pytest.mark.parametrize(
    "per_node", [pytest.param(True, id="of a node"), pytest.param(False, id="of a table")]
)
def test_no_opinion(answer: Any, per_node: bool) -> None:
    by_name = dict.fromkeys(EVERYBODY, answer)

    given = scores(answer if per_node else by_name, per_node=per_node).scores

    assert np.isnan(given).tolist() == [True, True, True]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(np.array([1, 2, 3]), [1.0, 2.0, 3.0], id="an array of whole numbers"),
        pytest.param(np.array([1, 2, 3], dtype=np.float32), [1.0, 2.0, 3.0], id="an array of floats"),
        pytest.param(np.array([True, False, True]), [1.0, 0.0, 1.0], id="an array of bools"),
        pytest.param([1, 2.5, 3], [1.0, 2.5, 3.0], id="a list"),
        pytest.param((1, 2, 3), [1.0, 2.0, 3.0], id="a tuple"),
        pytest.param(5, [5.0, 5.0, 5.0], id="one number for all"),
        pytest.param(Score(np.array([1, 2, 3])), [1.0, 2.0, 3.0], id="a Score"),
        pytest.param(Score(4), [4.0, 4.0, 4.0], id="a Score of one number for all"),
        pytest.param({"three": 3, "one": 1, "two": 2}, [1.0, 2.0, 3.0], id="a dict of node name to number"),
    ],
)
def test_a_score_of_the_table(answer: Any, expected: list[float]) -> None:
    given = scores(answer, per_node=False).scores

    assert given.dtype == np.float64
    assert given.tolist() == expected


@pytest.mark.parametrize(
    "said",
    [
        pytest.param({"two": 2}, id="left out of a dict"),
        pytest.param({"one": None, "two": 2, "three": None}, id="None in a dict"),
        pytest.param([None, 2, None], id="None in a list"),
        pytest.param((None, 2.0, math.nan), id="None in a tuple"),
    ],
)
def test_a_node_of_which_nothing_is_said_gets_no_opinion(said: Any) -> None:
    given = scores(said, per_node=False).scores

    assert np.isnan(given).tolist() == [True, False, True]


def test_a_score_keeps_the_numbers_behind_it() -> None:
    given = scores(Score([1, 2, 3], detail="{p95}s", p95=[7, 8, 9]), per_node=False)

    assert given.explain(2) == "9s"


def test_a_score_that_a_hook_keeps_is_not_changed() -> None:
    kept = Score(4)

    scores(kept, per_node=False)

    assert scores(kept, per_node=False, nodes=make_cluster(["alone"]).nodes).scores.tolist() == [4.0]


PLACE = r"test_lift\.py:\d+ rule: "


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        pytest.param(1, "returned int 1 for node one, want None or True to pass", id="a number"),
        pytest.param(["no"], r"returned list \['no'\] for node one", id="a list"),
        pytest.param({"one": "no"}, "returned dict .* for node one", id="a dict"),
        pytest.param(lambda node: node, "returned a Node for node one", id="the node itself"),
        pytest.param(FULL.where([True]), "returned Verdict .* for node one", id="a verdict"),
        pytest.param(np.array([True]), "returned ndarray .* for node one", id="an array"),
        pytest.param(b"x" * 100, r"returned bytes b'x+\.\.\. for node one", id="something long"),
    ],
)
def test_a_filter_of_one_node_refuses(answer: Any, complaint: str) -> None:
    with pytest.raises(BadResult, match=PLACE + complaint):
        verdict(answer, per_node=True)


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        pytest.param(
            np.ones((3, 1), dtype=bool),
            r"returned an array of shape \(3, 1\) for 3 nodes",
            id="a column on its side",
        ),
        pytest.param(np.array([True]), "returned 1 values for 3 nodes", id="an array that is too short"),
        pytest.param(np.array([1, 0, 1]), "returned ndarray .*want a Verdict", id="an array of numbers"),
        pytest.param([True, False, True], "returned list .*want a Verdict", id="a list"),
        pytest.param(FULL.where([True]), "returned 1 values for 3 nodes", id="a verdict that is too short"),
        pytest.param(
            Verdict(np.array([0, 2, 0], dtype=np.int16), (FULL,)),
            "the Verdict has a code without a reason",
            id="a verdict that counts wrong",
        ),
        pytest.param({"one": 3}, "returned int 3 for node one", id="a dict of numbers"),
        pytest.param(3, "returned int 3, want a Verdict", id="a number"),
        pytest.param(lambda nodes: nodes, "returned NodeTable NodeTable", id="the table itself"),
    ],
)
def test_a_filter_of_the_table_refuses(answer: Any, complaint: str) -> None:
    with pytest.raises(BadResult, match=PLACE + complaint):
        verdict(answer, per_node=False)


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        pytest.param("high", "returned str 'high' for node one, want a number", id="a word"),
        pytest.param("5", "returned str '5' for node one, want a finite number", id="a number in quotes"),
        pytest.param(math.inf, "returned float inf for node one, want a finite number", id="infinity"),
        pytest.param(10**400, "returned int 10+.* for node one, want a number", id="more than a float holds"),
        pytest.param([1.0], r"returned list \[1.0\] for node one, want a number", id="a list"),
        pytest.param(Score(1), "returned Score .* for node one, want a number", id="a Score"),
        pytest.param(
            lambda node: math.inf if node.name == "three" else 1,
            "returned float inf for node three, want a finite number",
            id="infinity on the last node",
        ),
    ],
)
def test_a_score_of_one_node_refuses(answer: Any, complaint: str) -> None:
    with pytest.raises(BadResult, match=PLACE + complaint):
        scores(answer, per_node=True)


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        pytest.param(
            np.ones((3, 1)), r"returned an array of shape \(3, 1\) for 3 nodes", id="a column on its side"
        ),
        pytest.param([1, 2], "returned 2 values for 3 nodes", id="a list that is too short"),
        pytest.param(["a", "b", "c"], "scores are text, want numbers", id="texts"),
        pytest.param([1, {}, 3], "scores are object, want numbers", id="a list with something else"),
        pytest.param(np.array([1j, 2, 3]), "scores are complex128, want numbers", id="complex numbers"),
        pytest.param([[1], [1, 2], []], "scores are ragged, want one number a node", id="ragged lists"),
        pytest.param(
            [1, math.inf, 2], "score of node two is infinite; use NaN for no opinion", id="infinity"
        ),
        pytest.param({"one": "a"}, "scores are text, want numbers", id="a dict of texts"),
    ],
)
def test_a_score_of_the_table_refuses(answer: Any, complaint: str) -> None:
    with pytest.raises(BadResult, match=PLACE + complaint):
        scores(answer, per_node=False)


def test_the_error_reads_as_the_design_says() -> None:
    nodes = make_cluster([f"node-{i}" for i in range(500)]).nodes

    with pytest.raises(BadResult, match=PLACE + r"returned an array of shape \(500, 1\) for 500 nodes$"):
        scores(np.zeros((500, 1)), per_node=False, nodes=nodes)


@pytest.mark.parametrize(
    "ask", [pytest.param(verdict, id="of a filter"), pytest.param(scores, id="of a score")]
)
@pytest.mark.parametrize(
    ("name", "tail"),
    [
        pytest.param("thre", r"'thre', which was not asked about; did you mean 'three'\?", id="a typo"),
        pytest.param("zzz", "'zzz', which was not asked about; known here: one, three, two", id="a stranger"),
        pytest.param(7, "'7', which was not asked about", id="a number"),
    ],
)
def test_a_dict_that_names_an_unknown_node(ask: Callable[..., Any], name: Any, tail: str) -> None:
    with pytest.raises(UnknownNode, match=PLACE + "names node " + tail):
        ask({"one": None, name: None}, per_node=False)


def test_an_exception_is_noted_with_its_node() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        verdict(lambda node: bool(1 // (node.name != "two")), per_node=True)

    assert caught.value.__notes__ == ["on node two"]


def test_a_next_without_default_does_not_end_the_nodes_in_silence() -> None:
    with pytest.raises(BadResult, match=PLACE + "raised StopIteration on node two; give next"):
        verdict(lambda node: next(iter(() if node.name == "two" else (None,))), per_node=True)


@pytest.mark.parametrize(
    "answer",
    [None, True, "no", np.array([], dtype=bool), {}, FULL.where(True), FULL.where(np.array([], bool))],
)
def test_a_table_without_nodes_has_an_empty_verdict(answer: Any) -> None:
    nobody = make_cluster([]).nodes

    assert verdict(answer, per_node=False, nodes=nobody).codes.shape == (0,)
    assert verdict(answer, per_node=True, nodes=nobody).codes.shape == (0,)


@pytest.mark.parametrize("answer", [5, [], np.array([]), {}, Score(1)])
def test_a_table_without_nodes_has_no_scores(answer: Any) -> None:
    nobody = make_cluster([]).nodes

    assert scores(answer, per_node=False, nodes=nobody).scores.shape == (0,)
    assert scores(answer, per_node=True, nodes=nobody).scores.shape == (0,)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        pytest.param(None, None, id="None lets it go"),
        pytest.param(False, None, id="False lets it go"),
        pytest.param(True, Reason("guard"), id="True protects"),
        pytest.param(np.True_, Reason("guard"), id="a true of NumPy protects"),
        pytest.param("precious", Reason("precious"), id="a text protects"),
        pytest.param("", Reason("guard"), id="an empty text protects"),
        pytest.param(FULL, FULL, id="a Reason protects"),
    ],
)
def test_protects(answer: Any, why: Reason | None) -> None:
    assert lift.protects(guard_that_says(answer), {"victim": make_pod()}) == why


def test_a_guard_that_says_anything_else_is_an_error() -> None:
    with pytest.raises(BadResult, match=r"guard: returned int 1, want True, False or a reason"):
        lift.protects(guard_that_says(1), {"victim": make_pod()})


@pytest.mark.parametrize(
    ("answer", "cost"),
    [
        pytest.param(None, None, id="None is no opinion"),
        pytest.param(True, None, id="True is no objection"),
        pytest.param(False, Reason("price"), id="False refuses"),
        pytest.param("precious", Reason("precious"), id="a text refuses"),
        pytest.param(FULL, FULL, id="a Reason refuses"),
        pytest.param(7, (7.0,), id="a number"),
        pytest.param(np.int64(7), (7.0,), id="a number of NumPy"),
        pytest.param((1, 2.5), (1.0, 2.5), id="several numbers"),
        pytest.param([1, 2], (1.0, 2.0), id="a list of them"),
    ],
)
def test_cost(answer: Any, cost: Any) -> None:
    assert lift.cost(pricer_that_says(answer), {"victims": (make_pod(),)}) == cost


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(float("nan"), id="NaN"),
        pytest.param(float("inf"), id="infinity"),
        pytest.param((), id="no number at all"),
        pytest.param((1, "2"), id="a text among numbers"),
        pytest.param((1, True), id="a bool among numbers"),
        pytest.param({"a": 1}, id="a dict"),
        pytest.param(10**400, id="more than any float"),
    ],
)
def test_a_cost_that_is_none_is_an_error(answer: Any) -> None:
    with pytest.raises(BadResult, match=r"price: returned .*, want a finite number"):
        lift.cost(pricer_that_says(answer), {"victims": ()})


def pricer_that_says(answer: Any) -> Hook:
    @bayplan.victims
    def price(victims: Any) -> Any:
        return answer

    return Hook("policy", "price", getattr(price, HOOK), price)


def guard_that_says(answer: Any) -> Hook:
    @bayplan.protect
    def guard(victim: Any) -> Any:
        return answer

    return Hook("policy", "guard", getattr(guard, HOOK), guard)


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([FULL, FULL.where(True), Score(1), NODES, NODES.row(0), np.array([1, 2]), object()]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["one", "two", "four"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(deadline=None, max_examples=200)
@given(ANYTHING, st.booleans())
def test_any_answer_is_one_verdict_a_node_or_a_bad_result(answer: Any, per_node: bool) -> None:
    try:
        shape: tuple[int, ...] = verdict(answer, per_node=per_node).codes.shape
    except BadResult as error:
        shape = (3,) if "rule: " in str(error) else ()

    assert shape == (3,)


@settings(deadline=None, max_examples=200)
@given(ANYTHING, st.booleans())
def test_any_answer_is_one_score_a_node_or_a_bad_result(answer: Any, per_node: bool) -> None:
    try:
        shape: tuple[int, ...] = scores(answer, per_node=per_node).scores.shape
    except BadResult as error:
        shape = (3,) if "rule: " in str(error) else ()

    assert shape == (3,)


def test_a_policy_may_judge_a_choice_of_rows_and_spread_its_verdict() -> None:
    """As the journal writes it down, too: who looked for its numbers elsewhere found none."""
    small = Reason("too small", detail="{free}m free")

    @bayplan.filter
    def some(nodes: NodeTable) -> Verdict:
        rows = np.flatnonzero(nodes["cpu.allocatable"] < 3000)
        free = nodes["cpu.free"][rows]
        return small.where(np.ones(len(rows), dtype=np.bool_), free=free).spread(rows, len(nodes))

    cluster = make_cluster([make_node(name, cpu=cpu) for name, cpu in (("a", 8), ("b", 8), ("c", 2))])
    decision = filter_nodes(
        ready(some, None), Question(make_pod(), cluster.nodes, cluster, datetime.now(UTC))
    )

    (entry,) = [Journal().write("filter", decision, generation=1)]

    (voice,) = entry.voices
    assert voice.detail(0) == "2000m free"
