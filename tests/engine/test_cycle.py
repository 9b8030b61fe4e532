"""One pod, one table: filters refuse, soft filters prefer, scores are weighed, failures are named."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayplan
from bayplan import Pod, Reason
from bayplan.authoring.hooks import HOOK
from bayplan.authoring.registry import FailurePolicy, Hook, Policy
from bayplan.authoring.scope import EVERY_POD, Scope
from bayplan.engine.cycle import Question, filter_nodes, score_nodes
from bayplan.engine.decision import Decision
from bayplan.engine.guard import CURRENT_POD, Attempt, overrun
from bayplan.snapshot.cluster import Snapshot
from bayplan.testing import make_cluster, make_node, make_pod

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
CLUSTER = make_cluster(
    [make_node("small", cpu=1), make_node("middle", cpu=2), make_node("large", cpu=4)],
    [make_pod("tenant", cpu="500m", node="large")],
)
SMALL = Reason("too small")


def policy(
    *functions: Callable[..., Any],
    name: str = "policy",
    weight: float = 1.0,
    scope: Scope = EVERY_POD,
    failure: FailurePolicy = "Fail",
) -> Policy:
    hooks = tuple(Hook(name, f.__name__, getattr(f, HOOK), f) for f in functions)
    return Policy(name, hooks, weight, scope, failure)


def ask(pod: Pod | None = None, cluster: Snapshot = CLUSTER) -> Question:
    return Question(pod or make_pod(cpu=1), cluster.nodes, cluster, NOON)


def filtered(*policies: Policy, pod: Pod | None = None, cluster: Snapshot = CLUSTER) -> Decision:
    return filter_nodes(policies, ask(pod, cluster))


def scored(*policies: Policy, pod: Pod | None = None, cluster: Snapshot = CLUSTER) -> list[float]:
    total = score_nodes(policies, ask(pod, cluster)).total
    assert total is not None
    return [float(value) for value in total]


def refusals(decision: Decision) -> dict[str, tuple[str, str, str]]:
    """Policy, hook and text for each refused node."""
    found = [decision.refusal(row) for row in range(len(decision.nodes))]
    return {r.node: (r.policy, r.hook, r.reason.text) for r in found if r}


@bayplan.filter
def not_small(nodes: Any) -> Any:
    return SMALL.where(nodes["cpu.allocatable"] < 2000)


@bayplan.filter
def not_large(node: Any) -> Any:
    return node.name != "large" or "too large"


@bayplan.filter
def nobody(nodes: Any) -> Any:
    return "never"


@bayplan.filter
def broken(node: Any) -> Any:
    return 1 // (node.name != "middle") and None


@bayplan.score(range=(0, 4000))
def by_size(nodes: Any) -> Any:
    return nodes["cpu.allocatable"]


@bayplan.score(range=(0, 4000), best="low")
def by_smallness(nodes: Any) -> Any:
    return nodes["cpu.allocatable"]


def test_every_filter_must_let_a_node_pass() -> None:
    decision = filtered(policy(not_small, name="first"), policy(not_large, name="second"))

    assert decision.passed_names == ["middle"]
    assert refusals(decision) == {
        "small": ("first", "not_small", "too small"),
        "large": ("second", "not_large", "too large"),
    }


def test_the_first_reason_is_the_one_that_counts() -> None:
    first = filtered(policy(not_small, nobody))
    second = filtered(policy(nobody, not_small))

    assert refusals(first)["small"] == ("policy", "not_small", "too small")
    assert refusals(first)["large"] == ("policy", "nobody", "never")
    assert refusals(second)["small"] == ("policy", "nobody", "never")


def test_filters_of_all_policies_come_before_the_soft_ones() -> None:
    @bayplan.prefer
    def only_small(node: Any) -> Any:
        return node.name == "small" or "rather small"

    decision = filtered(policy(only_small, name="soft"), policy(not_small, name="hard"))

    assert decision.passed_names == ["middle", "large"]
    assert [outcome.hook.name for outcome in decision.outcomes] == ["not_small", "only_small"]


def test_a_soft_filter_refuses_like_a_hard_one_while_a_node_remains() -> None:
    @bayplan.prefer
    def idle(nodes: Any) -> Any:
        return Reason("busy", detail="{pods} pods").where(
            nodes["pods.requested"] > 0, pods=nodes["pods.requested"]
        )

    decision = filtered(policy(not_small, idle))

    assert decision.passed_names == ["middle"]
    refusal = decision.refusal(2)
    assert refusal is not None
    assert (refusal.reason.text, refusal.detail) == ("busy", "1 pods")


def test_a_soft_filter_is_void_when_none_would_remain() -> None:
    @bayplan.prefer
    def only_small(node: Any) -> Any:
        return node.name == "small"

    decision = filtered(policy(not_small, only_small))

    assert decision.passed_names == ["middle", "large"]
    assert [outcome.void for outcome in decision.outcomes] == [False, True]


def test_a_soft_filter_sees_only_the_nodes_that_are_left() -> None:
    seen: list[list[str]] = []

    @bayplan.prefer
    def smallest(nodes: Any) -> Any:
        seen.append(list(nodes.names))
        return SMALL.where(nodes["cpu.allocatable"] > nodes["cpu.allocatable"].min())

    decision = filtered(policy(not_small, smallest))

    assert seen == [["middle", "large"]]
    assert decision.passed_names == ["middle"]


def test_one_soft_filter_comes_after_the_other() -> None:
    @bayplan.prefer
    def not_the_first(nodes: Any) -> Any:
        return {nodes.names[0]: "it is the first"}

    decision = filtered(policy(not_the_first, name="one"), policy(not_the_first, name="two"))

    assert decision.passed_names == ["large"]
    assert {node: by for node, (by, _, _) in refusals(decision).items()} == {"small": "one", "middle": "two"}


def test_a_soft_filter_has_nothing_to_say_when_nobody_is_left() -> None:
    @bayplan.prefer
    def picky(node: Any) -> Any:
        return False

    decision = filtered(policy(nobody, picky))

    assert decision.passed_names == []
    assert {hook for _, hook, _ in refusals(decision).values()} == {"nobody"}
    assert not any(outcome.void for outcome in decision.outcomes)


def test_a_soft_filter_is_not_called_when_nobody_is_left() -> None:
    """Its node with the least, or its first node, would not be there: the reasons of others must stay."""

    @bayplan.prefer
    def smallest(nodes: Any) -> Any:
        return SMALL.where(nodes["cpu.allocatable"] > nodes["cpu.allocatable"].min())

    decision = filtered(policy(nobody, smallest))

    assert decision.error == ""
    assert {reason for _, _, reason in refusals(decision).values()} == {"never"}


def test_pods_out_of_scope_pass_untouched() -> None:
    only_batch = policy(nobody, by_size, scope=Scope(namespaces=("batch-*",)))

    outside = filtered(only_batch, pod=make_pod(namespace="web"))
    inside = filtered(only_batch, pod=make_pod(namespace="batch-1"))

    assert (outside.judged, outside.passed_names) == (False, ["small", "middle", "large"])
    assert (inside.judged, inside.passed_names) == (True, [])
    assert score_nodes([only_batch], ask(make_pod(namespace="web"))).total is None


def test_without_policies_everything_passes() -> None:
    decision = filtered()

    assert not decision.judged
    assert decision.passed_names == ["small", "middle", "large"]
    assert score_nodes([], ask()).total is None


def test_a_failing_policy_with_fail_leaves_no_answer() -> None:
    decision = filtered(policy(broken, name="careful"), policy(not_small))

    assert decision.error.startswith("policy 'careful' failed: test_cycle.py:")
    assert decision.error.endswith(
        "broken: ZeroDivisionError: integer division or modulo by zero (on node middle)"
    )
    line = broken.__code__.co_firstlineno + 2
    assert f"test_cycle.py:{line} broken:" in decision.error


def test_a_failing_policy_with_ignore_abstains() -> None:
    decision = filtered(policy(broken, name="careful", failure="Ignore"), policy(not_small))

    assert decision.error == ""
    assert decision.passed_names == ["middle", "large"]
    (failed,) = decision.failures
    assert failed.ignored
    assert failed.failure is not None
    assert failed.failure.summary == "policy careful raised ZeroDivisionError"


def test_the_first_error_is_the_one_that_is_told() -> None:
    @bayplan.filter
    def exits(node: Any) -> Any:
        raise SystemExit("bye")

    decision = filtered(policy(exits, name="one"), policy(broken, name="two"))

    assert decision.error.startswith("policy 'one' failed: ")
    assert len(decision.failures) == 2


@pytest.mark.parametrize(
    ("answer", "summary"),
    [
        pytest.param({"nowhere": "no"}, "policy odd named an unknown node", id="an unknown node"),
        pytest.param([1], "policy odd gave a bad result", id="a bad result"),
    ],
)
def test_answers_that_cannot_be_used_are_failures(answer: Any, summary: str) -> None:
    @bayplan.filter
    def odd(nodes: Any) -> Any:
        return answer

    decision = filtered(policy(odd, name="odd"))

    assert decision.error.startswith("policy 'odd' failed: test_cycle.py:")
    assert [o.failure.summary for o in decision.failures if o.failure] == [summary]


def test_a_failing_score_with_ignore_leaves_it_to_the_others() -> None:
    @bayplan.score
    def fails(node: Any) -> Any:
        raise OSError("no table")

    decision = score_nodes([policy(fails, failure="Ignore"), policy(by_size)], ask())

    assert decision.error == ""
    assert decision.total is not None
    assert decision.total.tolist() == [25.0, 50.0, 100.0]
    assert [o.ignored for o in decision.failures] == [True]


def test_a_failing_score_with_fail_is_an_error() -> None:
    @bayplan.score
    def fails(node: Any) -> Any:
        raise OSError("no table")

    assert "fails: OSError: no table (on node small)" in score_nodes([policy(fails)], ask()).error


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        pytest.param((1, 1), [50, 50, 50], id="equal weights"),
        pytest.param((3, 1), [37.5, 50, 75], id="the heavier policy counts more"),
    ],
)
def test_scores_are_weighed(weights: tuple[float, float], expected: list[float]) -> None:
    totals = scored(
        policy(by_size, name="a", weight=weights[0]), policy(by_smallness, name="b", weight=weights[1])
    )

    assert totals == pytest.approx(expected)


def test_the_weight_of_a_hook_counts_with_that_of_its_policy() -> None:
    @bayplan.score(range=(0, 1), weight=3)
    def heavy(node: Any) -> Any:
        return 1

    @bayplan.score(range=(0, 1))
    def light(node: Any) -> Any:
        return 0

    assert scored(policy(heavy, name="a", weight=2), policy(light, name="b", weight=2)) == [75.0] * 3


def test_nan_is_no_opinion() -> None:
    @bayplan.score(range=(0, 1))
    def unsure(node: Any) -> Any:
        return {"small": 1.0, "middle": float("nan")}.get(node.name)

    assert scored(policy(unsure)) == [100.0, 50.0, 50.0]
    assert scored(policy(unsure, name="a"), policy(by_size, name="b")) == pytest.approx([62.5, 50.0, 100.0])


def test_what_was_prepared_reaches_the_other_hooks_of_its_policy() -> None:
    calls: list[str] = []

    @bayplan.prepare
    def ready(pod: Any, cluster: Any, now: Any) -> Any:
        calls.append(pod.name)
        return f"{len(cluster.pods)} pods at {now.hour}"

    @bayplan.filter
    def first(node: Any, prepared: Any) -> Any:
        return f"saw {prepared}"

    @bayplan.filter
    def second(nodes: Any, prepared: Any) -> Any:
        return f"saw {prepared}"

    @bayplan.filter
    def other(node: Any, prepared: Any) -> Any:
        return None if prepared is None else "not mine"

    decision = filtered(policy(other, name="other"), policy(ready, first, second, name="mine"))

    assert {text for _, _, text in refusals(decision).values()} == {"saw 1 pods at 12"}
    assert calls == ["pod"]


def test_policies_of_one_name_prepare_each_for_itself() -> None:
    def prepared_as(word: str) -> Policy:
        @bayplan.prepare
        def ready(pod: Any) -> str:
            return word

        @bayplan.filter
        def rule(node: Any, prepared: Any) -> Any:
            return prepared if node.name == prepared else None

        return policy(ready, rule, name="twin")

    decision = filtered(prepared_as("small"), prepared_as("large"))

    assert {node: text for node, (_, _, text) in refusals(decision).items()} == {
        "small": "small",
        "large": "large",
    }


@pytest.mark.parametrize(
    ("failure", "passed", "error"),
    [
        pytest.param("Ignore", ["small", "middle", "large"], "", id="Ignore abstains"),
        pytest.param("Fail", ["small", "middle", "large"], "policy 'policy' failed", id="Fail is an error"),
    ],
)
def test_a_preparation_that_fails_silences_its_policy(
    failure: FailurePolicy, passed: list[str], error: str
) -> None:
    @bayplan.prepare
    def ready(pod: Any) -> Any:
        raise OSError("no table")

    decision = filtered(policy(ready, nobody, not_small, failure=failure))

    assert decision.passed_names == passed
    assert decision.error.partition(": ")[0] == error
    assert len(decision.failures) == 1


def test_hooks_get_the_question_by_name() -> None:
    seen: dict[str, Any] = {}

    @bayplan.filter
    def curious(pod: Any, nodes: Any, cluster: Any, now: Any) -> Any:
        seen.update(pod=pod.name, nodes=list(nodes.names), cluster=cluster, now=now)

    filtered(policy(curious), pod=make_pod("web"))

    assert seen == {"pod": "web", "nodes": ["small", "middle", "large"], "cluster": CLUSTER, "now": NOON}


def test_only_the_nodes_asked_about_are_judged() -> None:
    question = Question(
        make_pod(), CLUSTER.nodes.take(np.array([2, 0])), CLUSTER, NOON, not_in_view=("stranger",)
    )

    decision = filter_nodes([policy(not_small)], question)

    assert decision.passed_names == ["large"]
    assert refusals(decision) == {"small": ("policy", "not_small", "too small")}
    assert decision.not_in_view == ("stranger",)


def test_a_policy_that_overran_is_not_called_again() -> None:
    rule = policy(nobody, name="slow")
    attempt = Attempt(given_up={"slow": overrun(rule.hooks[0], 1.0)})

    decision = filter_nodes([rule], ask(), attempt)

    assert decision.error.startswith("policy 'slow' failed: ")
    assert decision.passed_names == ["small", "middle", "large"]


def test_a_log_line_inside_a_hook_knows_its_pod(caplog: pytest.LogCaptureFixture) -> None:
    @bayplan.filter
    def talks(nodes: Any) -> Any:
        logging.getLogger("policy").warning("judging %s", CURRENT_POD.get())

    filtered(policy(talks), pod=make_pod("web", namespace="shop"))

    assert caplog.messages == ["judging shop/web"]


def test_refused_rows_are_grouped_by_who_and_why() -> None:
    decision = filtered(policy(not_small, nobody))

    groups = [(outcome.hook.name, reason.text, rows.tolist()) for outcome, reason, rows in decision.groups()]

    assert groups == [("not_small", "too small", [0]), ("nobody", "never", [1, 2])]


NAMES = st.lists(st.sampled_from([f"n{i}" for i in range(8)]), unique=True, max_size=6)
CLUSTERS = st.builds(
    lambda names, cpus, racks: make_cluster(
        [
            make_node(name, cpu=cpu, labels={"rack": rack} if rack else {})
            for name, cpu, rack in zip(names, cpus, racks, strict=False)
        ],
        [make_pod(f"on-{name}", cpu=cpu, node=name) for name, cpu in zip(names, cpus[3:], strict=False)],
    ),
    NAMES,
    st.lists(st.integers(0, 6), min_size=9, max_size=9),
    st.lists(st.sampled_from([None, "r1", "r2"]), min_size=6, max_size=6),
)
RACK = bayplan.Label("rack")


@bayplan.filter
def fits_a_node(pod: Any, node: Any) -> Any:
    return SMALL if node.free["cpu"] < pod.cpu_milli else None


@bayplan.filter
def fits_the_table(pod: Any, nodes: Any) -> Any:
    return SMALL.where(nodes["cpu.free"] < pod.cpu_milli)


@bayplan.prefer
def racked_node(node: Any) -> Any:
    return node[RACK] is not None or "no rack"


@bayplan.prefer
def racked_table(nodes: Any) -> Any:
    return Reason("no rack").where(~nodes[RACK].present)


@bayplan.score
def free_of_a_node(node: Any) -> Any:
    return None if node[RACK] == "r2" else node["cpu.free"]


@bayplan.score
def free_of_the_table(nodes: Any) -> Any:
    return np.where(nodes[RACK] == "r2", np.nan, nodes["cpu.free"])


@settings(deadline=None, max_examples=150)
@given(CLUSTERS, st.integers(0, 4))
def test_a_policy_says_the_same_written_per_node_and_over_the_table(cluster: Snapshot, cpu: int) -> None:
    pod = make_pod(cpu=cpu)
    by_node = policy(fits_a_node, racked_node, free_of_a_node)
    by_table = policy(fits_the_table, racked_table, free_of_the_table)

    one, other = filtered(by_node, pod=pod, cluster=cluster), filtered(by_table, pod=pod, cluster=cluster)

    assert one.passed_names == other.passed_names
    assert {n: text for n, (_, _, text) in refusals(one).items()} == {
        n: text for n, (_, _, text) in refusals(other).items()
    }
    assert [o.void for o in one.outcomes] == [o.void for o in other.outcomes]
    assert (one.error, other.error) == ("", "")
    assert scored(by_node, pod=pod, cluster=cluster) == scored(by_table, pod=pod, cluster=cluster)


def _moody(kind: Callable[..., Any], moods: dict[str, Any]) -> Callable[..., Any]:
    """A hook that has an answer of its own for each node, or an exception."""

    def moody(node: Any) -> Any:
        mood = moods.get(node.name)
        if isinstance(mood, BaseException):
            raise mood
        return mood

    decorated: Callable[..., Any] = kind(moody)
    return decorated


MOODS = st.dictionaries(
    st.sampled_from(["small", "middle", "large"]),
    st.sampled_from([None, True, False, "no", SMALL, 7, ValueError("x"), SystemExit(1)]),
)
POLICIES = st.lists(
    st.builds(
        lambda hooks, failure: policy(*[_moody(kind, moods) for kind, moods in hooks], failure=failure),
        st.lists(st.tuples(st.sampled_from([bayplan.filter, bayplan.prefer]), MOODS), max_size=3),
        st.sampled_from(["Fail", "Ignore"]),
    ),
    max_size=3,
)


@settings(deadline=None, max_examples=200)
@given(POLICIES)
def test_every_node_is_in_exactly_one_of_passed_and_refused(policies: list[Policy]) -> None:
    decision = filtered(*policies)

    passed, refused = decision.passed_names, refusals(decision)
    assert sorted([*passed, *refused]) == ["large", "middle", "small"]
    grouped = [row for _, _, rows in decision.groups() for row in rows.tolist()]
    assert sorted(decision.nodes.names[row] for row in grouped) == sorted(refused)
    fails = any(o.failure and not o.ignored for o in decision.outcomes)
    assert bool(decision.error) == fails


@settings(deadline=None, max_examples=100)
@given(
    st.lists(
        st.tuples(
            st.lists(st.floats(allow_infinity=False), min_size=3, max_size=3),
            st.floats(1e-6, 1e6),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_totals_are_numbers_from_0_to_100(opinions: list[tuple[list[float], float]]) -> None:
    def opinion(values: list[float], weight: float) -> Policy:
        @bayplan.score
        def given_values(nodes: Any) -> Any:
            return values

        return policy(given_values, weight=weight)

    totals = scored(*[opinion(values, weight) for values, weight in opinions])

    assert all(-1e-9 <= total <= 100 + 1e-9 for total in totals)
