"""Shadow policies: asked and recorded like the others, and never heeded."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import bayplan
from bayplan import Reason
from bayplan.authoring.hooks import HOOK
from bayplan.authoring.registry import Hook, Policy
from bayplan.engine.commit import commit, commits
from bayplan.engine.cycle import Question, filter_nodes, score_nodes
from bayplan.engine.preempt import Candidate, choose_candidates
from bayplan.ops.metrics import Metrics
from bayplan.testing import make_cluster, make_pod

CLUSTER = make_cluster(["a", "b", "c"], [make_pod("tenant", uid="tenant", node="a")])
NOT_A, NOT_B = Reason("not a"), Reason("not b")


@bayplan.filter(recheck=True)
def not_a(pod: Any, nodes: Any) -> Any:
    return NOT_A.where([name == "a" for name in nodes.names])


@bayplan.filter
def not_b(pod: Any, nodes: Any) -> Any:
    return NOT_B.where([name == "b" for name in nodes.names])


@bayplan.prefer
def only_c(pod: Any, nodes: Any) -> Any:
    return [name == "c" for name in nodes.names]


@bayplan.score(range=(0, 100))
def likes_a(pod: Any, nodes: Any) -> Any:
    return [100.0 if name == "a" else 0.0 for name in nodes.names]


@bayplan.score(range=(0, 100))
def likes_c(pod: Any, nodes: Any) -> Any:
    return [100.0 if name == "c" else 0.0 for name in nodes.names]


@bayplan.filter
def breaks(pod: Any, nodes: Any) -> Any:
    raise ValueError("a candidate may be half-baked")


@bayplan.protect
def never(pod: Any, victim: Any) -> bool:
    return True


def policy(*functions: Callable[..., Any], name: str, shadow: bool = False) -> Policy:
    hooks = tuple(Hook(name, f.__name__, getattr(f, HOOK), f) for f in functions)
    return Policy(name, hooks, shadow=shadow)


def ask() -> Question:
    return Question(make_pod("p"), CLUSTER.nodes, CLUSTER, datetime(2026, 1, 1, tzinfo=UTC))


def test_it_refuses_nobody_and_what_it_would_refuse_is_on_record() -> None:
    live, shadow = policy(not_b, name="live"), policy(not_a, not_b, name="candidate", shadow=True)

    decision = filter_nodes([shadow, live], ask())

    assert decision.passed_names == ["a", "c"]
    assert [(o.hook.policy, r.text, rows.tolist()) for o, r, rows in decision.groups()] == [
        ("live", "not b", [1])
    ]
    # "b" is refused by the others anyway: what would be different is "a".
    assert [(o.hook.policy, r.text, rows.tolist()) for o, r, rows in decision.shadow_groups()] == [
        ("candidate", "not a", [0])
    ]


def test_its_wishes_and_scores_do_not_count() -> None:
    live = policy(likes_a, name="live")
    shadow = policy(only_c, likes_c, name="candidate", shadow=True)

    assert filter_nodes([live, shadow], ask()).passed_names == ["a", "b", "c"]
    scored = score_nodes([live, shadow], ask())
    assert scored.total is not None
    assert scored.total.tolist() == [100, 0, 0]
    recorded = {o.hook.name: o.normalised.tolist() for o in scored.outcomes if o.normalised is not None}
    assert recorded == {"likes_a": [100, 0, 0], "likes_c": [0, 0, 100]}


def test_alone_it_scores_nothing() -> None:
    assert score_nodes([policy(likes_c, name="candidate", shadow=True)], ask()).total is None


def test_its_failure_is_on_record_and_costs_nobody_anything() -> None:
    decision = filter_nodes([policy(breaks, name="candidate", shadow=True)], ask())

    assert (decision.error, decision.passed_names) == ("", ["a", "b", "c"])
    assert [o.failure.kind for o in decision.failures if o.failure] == ["exception"]


def test_it_has_no_word_at_bind_or_in_preemption() -> None:
    shadow = policy(not_a, never, name="candidate", shadow=True)

    assert not commits([shadow])
    assert commit([shadow], ask(), "a").refusal == ""
    assert commit([replace(shadow, shadow=False)], ask(), "a").refusal == "node a: not a, just now"
    victims = {"tenant": CLUSTER.pods_by_uid["tenant"]}
    kept = choose_candidates([shadow], ask(), [Candidate("a", ("tenant",))], victims=victims).kept
    assert [candidate.node for candidate in kept] == ["a"]


def test_its_refusals_are_counted_apart() -> None:
    metrics = Metrics(version="test")
    decision = filter_nodes([policy(not_a, name="candidate", shadow=True)], ask())

    metrics.decided("filter", decision, observe=False)

    text = metrics.render().decode()
    assert 'bayplan_rejections_total{mode="shadow",policy="candidate",reason="not a"} 1.0' in text
    assert 'bayplan_nodes_total{verb="filter",verdict="passed"} 3.0' in text
