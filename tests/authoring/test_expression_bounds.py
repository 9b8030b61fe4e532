"""No expression runs for long: what could is refused at load, whatever the pods and nodes look like."""

import asyncio
import time
from datetime import UTC, datetime

import pytest

from bayplan.authoring.cel.compile import CompileError, compile_expression
from bayplan.authoring.cel.cost import BYTES_LIMIT, STEPS_LIMIT
from bayplan.authoring.expression import Expression, from_expressions
from bayplan.engine.cycle import Question, filter_nodes
from bayplan.runtimes.workers import Workers
from bayplan.testing import make_cluster, make_node, make_pod, run_policy
from tests.controlplane.waiting import wait_until

VARIABLES = ("pod", "node", "column")
CONTAINERS = "pod.spec.containers"
ITEMS = str(list(range(45)))
PAIRS = f"{ITEMS}.all(a, {ITEMS}.all(b, a + b < 1000 && a - b < 1000 && a * b < 9000))"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param(
            "'a'" + ".replace('a', 'aaaaaaaaaa')" * 8 + " == ''", "bytes", id="replaced eight times"
        ),
        pytest.param("['a']" + ".map(x, x + x)" * 24 + "[0] == ''", "bytes", id="doubled again and again"),
        pytest.param("[[1]]" + ".map(x, x + x)" * 24 + "[0] == []", "bytes", id="a list that doubles"),
        pytest.param(
            "[node.metadata.name]" + ".map(x, x + x)" * 20 + "[0] == ''", "bytes", id="a name that doubles"
        ),
        pytest.param(
            "[node.metadata.annotations['a']][0].split('').all(x, x != 'y')",
            "too long",
            id="hidden in a list",
        ),
        pytest.param("['a']" + ".map(x, [x, x].join(x))" * 24 + "[0] == ''", "bytes", id="joined"),
        pytest.param("['a']" + ".map(x, '%s%s'.format([x, x]))" * 24 + "[0] == ''", "bytes", id="formatted"),
        pytest.param(
            "node.metadata.annotations['a'].replace('', node.metadata.annotations['b']) == ''",
            "bytes",
            id="one annotation in another",
        ),
        pytest.param(
            f"{CONTAINERS}.all(a, {CONTAINERS}.all(b, {CONTAINERS}.all(c, a.name != c.name)))",
            "too long",
            id="three lists in each other",
        ),
        pytest.param(
            "node.metadata.annotations['a'].split('').all(x, x != 'y')", "too long", id="every character"
        ),
        pytest.param(
            "node.metadata.annotations['a'].contains(node.metadata.annotations['b'])",
            "too long",
            id="one annotation looked for in another",
        ),
        pytest.param("[" + ", ".join(["1"] * 1001) + "] == []", "more than 1000", id="a thousand parts"),
        pytest.param("(" * 100 + "true" + ")" * 100, "nested too deeply", id="a hundred brackets"),
        pytest.param("1" + " + 1" * 100 + " == 1", "nested too deeply", id="a long sum"),
        pytest.param("true || " * 1000 + "true", "at most", id="a text without end"),
        pytest.param(
            "pod.metadata.?name" + ".optMap(v, v)" * 30 + " == 1", "4 times", id="a tree that doubles"
        ),
    ],
)
def test_what_could_run_for_long_is_refused_at_once(text: str, error: str) -> None:
    began = time.perf_counter()

    with pytest.raises(CompileError, match=error):
        compile_expression(text, VARIABLES)

    assert time.perf_counter() - began < 2


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "node.spec.taints.all(t, pod.spec.tolerations.exists(x, x.key == t.key && x.value == t.value))",
            id="taints against tolerations",
        ),
        pytest.param(
            f"{CONTAINERS}.all(c, node.metadata.annotations[?'images'].orValue('').contains(c.image))",
            id="every image in an annotation",
        ),
        pytest.param(
            "pod.metadata.labels.all(k, pod.metadata.labels[k] == node.metadata.labels[?k].orValue(''))",
            id="every label",
        ),
        pytest.param(
            "node.metadata.labels['a'].split('-').map(x, x.lowerAscii()).join('_') == ''", id="words"
        ),
        pytest.param(
            "node.metadata.name.matches('^(a+)+$')", id="a regular expression that others backtrack on"
        ),
        pytest.param(" || ".join(f"node.metadata.name == 'n{i}'" for i in range(100)), id="a hundred names"),
    ],
)
def test_what_people_write_is_not(text: str) -> None:
    assert compile_expression(text, VARIABLES).steps <= STEPS_LIMIT


@pytest.mark.alone
@pytest.mark.parametrize(
    ("text", "limit"),
    [
        pytest.param(
            "pod.spec.tolerations.all(a, pod.spec.tolerations.all(b, a.key != b.value))", 1, id="pairs"
        ),
        pytest.param("node.metadata.annotations['a'].matches('(a|b|ab)*c')", 1, id="a large annotation"),
    ],
)
def test_objects_larger_than_any_honest_one_cannot_make_it_long(text: str, limit: float) -> None:
    huge = make_pod(tolerations=[{"key": f"k{i}", "value": "v", "operator": "Equal"} for i in range(5_000)])
    cluster = make_cluster([make_node("wordy", annotations={"a": "ab" * 131_072})])
    policy = from_expressions("rule", {"filter": Expression(text, "bayplan.yaml:3")})
    began = time.perf_counter()

    result = run_policy(policy, huge, cluster, allow_errors=True)

    assert result.passed == []
    assert time.perf_counter() - began < limit


@pytest.mark.alone
def test_steps_are_a_bound_for_what_is_really_taken() -> None:
    """The dearest that is let through must not come near a hook's second."""
    compiled = compile_expression(PAIRS, ())
    assert STEPS_LIMIT / 20 < compiled.steps <= STEPS_LIMIT
    began = time.perf_counter()

    compiled.program.eval(data={})

    assert time.perf_counter() - began < 0.5


def test_the_largest_value_that_is_let_through_is_as_large_as_was_reckoned() -> None:
    text = "'a'" + ".replace('a', 'aaaaaaaaaa')" * 6 + ".size()"

    size = compile_expression(text, ()).program.eval(data={}).value()

    assert BYTES_LIMIT / 20 < size <= BYTES_LIMIT


async def test_a_deadline_ends_the_walk_over_nodes_that_all_differ() -> None:
    """One evaluation cannot be interrupted; the loop over them can."""
    nodes = make_cluster([make_node(f"n{i}") for i in range(1_000)])
    dear = from_expressions(
        "dear", {"filter": Expression(f"node.metadata.name != '' && {PAIRS}", "x.yaml:3")}
    )
    question = Question(make_pod(), nodes.nodes, nodes, datetime.now(UTC))
    workers = Workers(policy_seconds=0.2, request_seconds=30, stuck_limit=4)

    decision = await workers.run(lambda attempt: filter_nodes([dear], question, attempt))

    assert decision.error == "policy 'dear' failed: x.yaml:3 filter: still running after 0.2 s"
    await asyncio.to_thread(wait_until, lambda: not workers.stuck(), 10, what="the thread is back")
    workers.stop()
    answers = dear.hooks[0].function.evaluator._known[""]  # type: ignore[attr-defined]
    assert 0 < len(answers) < len(nodes.nodes)
