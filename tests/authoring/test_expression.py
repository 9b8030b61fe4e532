"""Policies of expressions: they filter, prefer, score and protect like any other."""

import contextlib
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from bayplan.authoring.cel import evaluate
from bayplan.authoring.expression import Expression, ExpressionError, from_expressions
from bayplan.authoring.hooks import PolicyError
from bayplan.authoring.registry import Policy
from bayplan.engine.cycle import Question
from bayplan.engine.preempt import Candidate, choose_candidates
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.columns import Label
from bayplan.testing import make_cluster, make_node, make_pod, run_policy

SAME_RACK = "node.metadata.labels[?'rack'].orValue('') == pod.metadata.labels[?'rack'].orValue('')"
CLUSTER = make_cluster(
    [
        make_node("racked", labels={"rack": "a"}),
        make_node("elsewhere", labels={"rack": "b"}, cpu=8, zone="z"),
        make_node("tainted", taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]),
    ],
    [make_pod("hog", cpu=3, node="racked")],
)
POD = make_pod("pod", labels={"rack": "a"}, cpu="500m", memory="1Gi", priority=7)


def written(*, reason: str = "", failure_policy: Any = "Fail", **expressions: str) -> Policy:
    places: Any = {kind: Expression(text, "bayplan.yaml:5") for kind, text in expressions.items()}
    return from_expressions("rule", places, reason=reason, failure_policy=failure_policy)


def test_a_filter_is_true_where_the_node_passes() -> None:
    result = run_policy(written(filter=SAME_RACK, reason="rack differs"), POD, CLUSTER)

    assert result.passed == ["racked"]
    assert result.refused == {"elsewhere": "rack differs", "tainted": "rack differs"}


def test_without_a_reason_the_name_is_the_reason() -> None:
    assert run_policy(written(filter="false"), POD, CLUSTER).refused["racked"] == "rule"


def test_a_soft_rule_is_void_where_no_node_would_remain() -> None:
    assert run_policy(written(prefer=SAME_RACK), POD, CLUSTER).passed == ["racked"]
    assert len(run_policy(written(prefer="false"), POD, CLUSTER).passed) == 3


def test_the_higher_number_is_the_better_node() -> None:
    score = "quantity(node.status.allocatable['cpu']).asApproximateFloat()"

    assert run_policy(written(score=score), POD, CLUSTER).best == "elsewhere"


def test_several_expressions_are_one_policy() -> None:
    result = run_policy(
        written(filter="size(node.spec.taints) == 0", score="column['cpu.free']"), POD, CLUSTER
    )

    assert result.scores == {"racked": 0.0, "elsewhere": 100.0}


@pytest.mark.parametrize(
    ("rule", "passed"),
    [
        pytest.param(
            "!node.spec.unschedulable", "racked elsewhere tainted", id="a flag that is not set is false"
        ),
        pytest.param("has(node.spec.taints)", "tainted", id="an empty list is not there when asked"),
        pytest.param("node.spec.taints.all(t, t.key != 'gpu')", "racked elsewhere", id="a list of a node"),
        pytest.param("'rack' in node.metadata.labels", "racked elsewhere", id="a key of a map"),
        pytest.param("has(node.metadata.labels.rack)", "racked elsewhere", id="a label with has"),
        pytest.param("node.metadata.name in ['racked']", "racked", id="a name in a list"),
        pytest.param(
            "node.metadata.labels.exists(k, k == 'rack')", "racked elsewhere", id="the keys of a map"
        ),
        pytest.param("column['cpu.free'] >= 4000", "elsewhere tainted", id="a column counts placed pods"),
        pytest.param("column[?'zone'].orValue('') == 'z'", "elsewhere", id="a column of text"),
        pytest.param("'zone' in column", "elsewhere", id="a column that not all nodes have"),
        pytest.param("pod.spec.priority == 7", "racked elsewhere tainted", id="the pod alone"),
        pytest.param("pod.spec.?nodeSelector.hasValue()", "", id="an optional field that is not set"),
        pytest.param(
            "pod.spec.nodeSelector.size() == 0", "racked elsewhere tainted", id="a map that is not set"
        ),
        pytest.param(
            "quantity(pod.spec.containers[0].resources.requests['cpu']).isLessThan(quantity('1'))",
            "racked elsewhere tainted",
            id="a request of a container",
        ),
        pytest.param(
            "node.spec.taints.all(t, pod.spec.tolerations.exists(x, x.key == t.key))",
            "racked elsewhere",
            id="taints against tolerations",
        ),
        pytest.param(
            "node.metadata.name.startsWith('r') || node.metadata.name.upperAscii() == 'TAINTED'",
            "racked tainted",
            id="functions of texts",
        ),
    ],
)
def test_what_can_be_asked(rule: str, passed: str) -> None:
    assert run_policy(written(filter=rule), POD, CLUSTER).passed == passed.split()


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        pytest.param(
            "node.metadata.labels['rack'] == 'a'",
            """bayplan.yaml:5 filter: ExpressionFailed: policy 'rule': "rack" is not there; read it with"""
            """ [?"rack"].orValue(...), or ask first: "rack" in ..., in: node.metadata.labels['rack'] =="""
            """ 'a'"""
            " (on node tainted)",
            id="a label that a node lacks",
        ),
        pytest.param(
            "node.metadata.name < 1",
            "a text and a number do not go together; make a number of the text, as with int(...), in: node",
            id="a text is no number",
        ),
        pytest.param(
            "node.metadata.name < 0.3",
            "make a number of the text, as with double(...), in: node",
            id="a text is no decimal",
        ),
        pytest.param(
            "column['cpu.requested'] < 0.8 * column['cpu.allocatable']",
            "write double(...) around the whole number, as in double(column['cpu.free']), or 2.0 for 2, in:",
            id="a whole number times a decimal",
        ),
        pytest.param(
            "int(node.metadata.labels[?'rack']) > 1",
            "what [?...] gives may be missing; add .orValue(...) before it is used",
            id="an optional where a value is wanted",
        ),
        pytest.param(
            "int(node.metadata.name) > 1",
            "a text there is no number; ask first, as with .matches('^[0-9]+$')",
            id="a text that is no number",
        ),
        pytest.param(
            "double(node.metadata.name) > 1.0",
            "a text there is no number; ask first, as with .matches('^[0-9]+([.][0-9]+)?$'), in:",
            id="a text that is no decimal",
        ),
        pytest.param(
            "int(node.metadata.name + '0.5') > 1",
            "a number such as 0.5 is read with double(...)",
            id="a decimal that is no whole number",
        ),
        pytest.param(
            "dyn(pod.metadata.name)",
            "bayplan.yaml:5 filter: policy 'rule' returned string, want true or false",
            id="a text is no verdict",
        ),
        pytest.param("quantity(pod.metadata.name).sign() > 0", "'pod' is not a quantity", id="no quantity"),
        pytest.param("1 / (pod.spec.priority - 7) == 1", "divide by zero", id="a division by zero"),
    ],
)
def test_a_rule_without_an_answer_fails_and_says_which(rule: str, error: str) -> None:
    result = run_policy(written(filter=rule), POD, CLUSTER, allow_errors=True)

    assert error in result.errors[0]
    assert result.passed == []


def test_a_score_that_is_a_text_is_told_how_texts_are_read() -> None:
    nodes = [make_node("cheap", labels={"price": "0.2"})]

    wrong = run_policy(
        written(score="node.metadata.labels['price']"), POD, make_cluster(nodes), allow_errors=True
    )
    right = run_policy(written(score="double(node.metadata.labels['price'])"), POD, make_cluster(nodes))

    assert "returned string, want a number; double(...) reads a text as a number" in wrong.errors[0]
    assert right.errors == []


def test_the_advice_about_decimals_lets_decimals_pass() -> None:
    nodes = [make_node("cheap", labels={"price": "0.2"}), make_node("no-price", labels={"price": "low"})]
    price = "node.metadata.labels['price']"
    rule = written(filter=f"{price}.matches('^[0-9]+([.][0-9]+)?$') && double({price}) < 0.3")

    assert run_policy(rule, POD, make_cluster(nodes)).passed == ["cheap"]


def test_a_policy_that_may_be_ignored_abstains_when_it_fails() -> None:
    rule = written(filter="node.metadata.labels['rack'] == 'a'", failure_policy="Ignore")

    assert len(run_policy(rule, POD, CLUSTER, allow_errors=True).passed) == 3


def test_a_number_that_is_not_set_cannot_be_read_but_asked_about() -> None:
    bare = make_pod("bare", spec={"priority": None})

    assert run_policy(written(score="pod.spec.priority"), bare, CLUSTER, allow_errors=True).errors
    assert run_policy(written(filter="!has(pod.spec.priority)"), bare, CLUSTER).passed


def preempted(policy: Policy, cluster: Snapshot, *nodes: str) -> list[str]:
    question = Question(POD, cluster.nodes, cluster, datetime.now(UTC))
    victims = {pod.uid: pod for name in nodes for pod in cluster.pods_on(name)}
    candidates = [Candidate(name, tuple(pod.uid for pod in cluster.pods_on(name))) for name in nodes]
    decided = choose_candidates([policy], question, candidates, victims=victims)
    assert decided.failures == ()
    return [candidate.node for candidate in decided.kept]


def test_a_protected_victim_keeps_its_node_out_of_preemption() -> None:
    pods = [make_pod("a", namespace="prod", node="of-prod"), make_pod("b", namespace="test", node="of-test")]
    cluster = make_cluster(["of-prod", "of-test"], pods)
    rule = written(protect="victim.metadata.namespace == 'prod' && pod.metadata.namespace != 'prod'")

    assert preempted(rule, cluster, "of-prod", "of-test") == ["of-test"]


def test_a_rule_about_free_cpu_is_asked_again_with_the_victims_gone() -> None:
    pods = [make_pod("all", cpu=4, node="full"), make_pod("half", cpu=2, node="small")]
    cluster = make_cluster([make_node("full"), make_node("small", cpu=2)], pods)
    rule = written(filter="column['cpu.free'] >= 3000")

    assert run_policy(rule, POD, cluster).passed == []
    assert preempted(rule, cluster, "full", "small") == ["full"]


def test_only_a_refusal_that_looks_at_pods_may_end_with_their_eviction() -> None:
    by_pods = run_policy(written(filter="column['cpu.free'] < 0"), POD, CLUSTER).filtered.refusal(0)
    by_label = run_policy(written(filter="node.metadata.name == ''"), POD, CLUSTER).filtered.refusal(0)

    assert by_pods is not None
    assert by_label is not None
    assert by_pods.reason.preemptible
    assert by_pods.reason.helped_by == {"nodes", "pods"}
    assert not by_label.reason.preemptible


def test_labels_that_are_read_are_listed_among_the_columns() -> None:
    assert written(filter=SAME_RACK, score="node.metadata.name.size()").columns == (Label("rack"),)


@pytest.mark.parametrize(
    ("expressions", "error"),
    [
        pytest.param({"filter": "1"}, "want true or false, this is int", id="a filter that is a number"),
        pytest.param({"score": "true"}, "want a number, this is bool", id="a score that is a verdict"),
        pytest.param({"score": "quantity('1')"}, "a quantity; add .asApproximateFloat()", id="a quantity"),
        pytest.param({"score": "optional.of(1)"}, "an optional; add .orValue(...)", id="an optional"),
        pytest.param(
            {"protect": "node.metadata.name == ''"},
            "unknown name 'node'; the variables are: pod, victim",
            id="no node in protect",
        ),
        pytest.param(
            {"filter": "victim.metadata.name == ''"},
            "unknown name 'victim'; the variables are: pod, node, column",
            id="no victim in filter",
        ),
    ],
)
def test_what_can_be_known_to_be_wrong_is_told_at_load(expressions: dict[str, str], error: str) -> None:
    with pytest.raises(ExpressionError) as raised:
        written(**expressions)

    assert error in str(raised.value)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Every run of an expression from now on, with what it was given."""
    runs: list[dict[str, Any]] = []
    run = evaluate.Evaluator._run

    def counting(self: evaluate.Evaluator, data: dict[str, Any]) -> Any:
        runs.append(data)
        return run(self, data)

    monkeypatch.setattr(evaluate.Evaluator, "_run", counting)
    return runs


def test_nodes_that_are_alike_are_asked_about_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = counted(monkeypatch)
    cluster = make_cluster([make_node(f"n{i}", labels={"rack": "ab"[i % 2]}) for i in range(100)])
    rule = written(filter="(node.metadata.labels['rack'] + pod.metadata.labels['rack']) in ['aa', 'bb']")

    assert len(run_policy(rule, POD, cluster).passed) == 50
    assert [run["node"] for run in runs] == [{"metadata": {"labels": {"rack": rack}}} for rack in "ab"]

    run_policy(rule, make_pod("twin", labels={"rack": "a", "other": "x"}), cluster)
    assert len(runs) == 2, "what was answered once is known"
    run_policy(rule, make_pod("other", labels={"rack": "b"}), cluster)
    assert len(runs) == 4


def test_a_rule_about_the_pod_alone_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = counted(monkeypatch)

    assert run_policy(written(filter="pod.spec.priority > 9"), POD, CLUSTER).passed == []
    assert len(runs) == 1
    assert run_policy(written(filter="pod.spec.priority > 9"), POD, make_cluster([])).passed == []
    assert len(runs) == 1, "nobody is asked about no nodes"


def test_a_node_that_changes_gets_another_answer() -> None:
    rule = written(filter=SAME_RACK)
    assert run_policy(rule, POD, CLUSTER).passed == ["racked"]
    load = CLUSTER.nodes.load
    assert load is not None
    moved = [make_node("racked", labels={"rack": "z"}).object, *CLUSTER.nodes.objects[1:]]

    table = CLUSTER.nodes.followed_by(
        moved, load, changed=np.array([0], dtype=np.intp), loaded=np.array([], dtype=np.intp)
    )

    assert rule.hooks[0].function(pod=POD, nodes=table).rejected_names(table) == [
        "racked",
        "elsewhere",
        "tainted",
    ]


def test_answers_are_not_kept_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "MEMORY_LIMIT", 10)
    rule = written(filter=SAME_RACK)

    for number in range(50):
        run_policy(rule, make_pod("p", labels={"rack": str(number)}), CLUSTER)

    kept = rule.hooks[0].function.evaluator._known  # type: ignore[attr-defined]
    assert sum(map(len, kept.values())) <= 10 + 3


def test_what_was_asked_in_vain_is_not_kept_without_end_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "MEMORY_LIMIT", 10)
    rule = written(filter="int(pod.metadata.name) == 1")

    for number in range(50):
        with pytest.raises(PolicyError, match="cannot convert string to int"):
            run_policy(rule, make_pod(f"p-{number}"), CLUSTER)

    assert len(rule.hooks[0].function.evaluator._known) <= 10 + 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("pod.metadata.annotations['a'] == node.metadata.name", id="large pods"),
        pytest.param("int(pod.metadata.annotations['a']) == 1", id="large pods, in vain"),
        pytest.param("node.metadata.annotations[?'a'].orValue('') == pod.metadata.name", id="large nodes"),
    ],
)
def test_large_texts_are_kept_up_to_a_limit(monkeypatch: pytest.MonkeyPatch, expression: str) -> None:
    monkeypatch.setattr(evaluate, "MEMORY_BYTES", 100_000)
    rule = written(filter=expression)

    for number in range(50):
        notes = {"a": f"{number}" + "x" * 20_000}
        cluster = make_cluster([make_node("n", annotations=notes)])
        with contextlib.suppress(PolicyError):
            run_policy(rule, make_pod(f"p-{number}", annotations=notes), cluster)

    known = rule.hooks[0].function.evaluator._known  # type: ignore[attr-defined]
    assert sum(len(text) + sum(map(len, answers)) for text, answers in known.items()) <= 100_000 + 41_000


@pytest.mark.parametrize(
    ("rule", "reads"),
    [
        pytest.param(SAME_RACK, "node", id="labels of both"),
        pytest.param("node.spec.unschedulable || pod.spec.priority > 5", "node", id="specs"),
        pytest.param(
            "pod.metadata.namespace == 'a' && 'x' in pod.metadata.annotations", "node", id="metadata"
        ),
        pytest.param(
            "column['cpu.allocatable'] > 3.0 && column['zone'] == 'z'", "node", id="columns of the node"
        ),
        pytest.param("column['cpu.free'] > 3.0", "pods", id="what pods have left"),
        pytest.param("column['memory.requested'] > 3.0", "pods", id="what pods have taken"),
        pytest.param("pod.metadata.name == node.metadata.name", "cluster", id="the pod's name"),
        pytest.param("pod.metadata.uid != ''", "cluster", id="its UID"),
        pytest.param("pod.status.phase == 'Pending'", "cluster", id="its status"),
        pytest.param("true", "node", id="nothing"),
    ],
)
def test_what_it_reads_is_known_and_so_is_what_it_promises(rule: str, reads: str) -> None:
    (hook,) = written(filter=rule).hooks

    assert hook.spec.reads == reads


@pytest.mark.parametrize("kind", ["prefer", "protect"])
def test_a_soft_rule_promises_nothing(kind: str) -> None:
    """Whether it is void hangs on all nodes that are left."""
    (hook,) = written(**{kind: "pod.metadata.namespace == 'a'"}).hooks

    assert hook.spec.reads == "cluster"
