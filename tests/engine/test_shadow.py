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
from bayplan.engine.entry import PodRef
from bayplan.engine.journal import Journal
from bayplan.engine.preempt import Candidate, PreemptDecision, choose_candidates
from bayplan.engine.why import left_out
from bayplan.ops.metrics import Metrics
from bayplan.recording.journal_telling import entry_of, line_of
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


@bayplan.protect
def keeps_c(pod: Any, victim: Any) -> Any:
    return victim.name == "c"


@bayplan.protect
def breaks_on_victims(pod: Any, victim: Any) -> Any:
    raise ValueError("a candidate may be half-baked")


@bayplan.victims
def cheapest_on_b(pod: Any, victims: Any) -> Any:
    return 1.0 if victims[0].name == "b" else 2.0


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


def preempted(*policies: Policy) -> PreemptDecision:
    pods = [make_pod(name, uid=name, node=name) for name in ("a", "b", "c")]
    candidates = [Candidate(pod.name, (pod.uid,)) for pod in pods]
    return choose_candidates(policies, ask(), candidates, victims={pod.uid: pod for pod in pods})


def would_drop(decision: PreemptDecision) -> list[tuple[str, str, str]]:
    return [(each.candidate.node, each.policy, each.text) for each in decision.would_drop]


def test_what_it_would_keep_out_of_preemption_is_on_record() -> None:
    live = policy(not_b, name="live")
    first = policy(not_a, not_b, name="first", shadow=True)
    second = policy(keeps_c, name="second", shadow=True)

    decision = preempted(live, first, second)

    assert [candidate.node for candidate in decision.kept] == ["a", "c"]
    assert [each.policy for each in decision.dropped] == ["live"]
    # "b" is out anyway: what would be different is "a" by the one and "c" by the other.
    assert would_drop(decision) == [
        ("a", "first", "not a"),
        ("c", "second", "pod default/c is protected by keeps_c"),
    ]


def test_victims_that_it_finds_dearer_are_on_record() -> None:
    decision = preempted(policy(cheapest_on_b, name="candidate", shadow=True))

    assert [candidate.node for candidate in decision.kept] == ["a", "b", "c"]
    assert would_drop(decision) == [
        (node, "candidate", "its victims cost more than those on b") for node in ("a", "c")
    ]


def test_its_failure_in_preemption_keeps_nobody_out() -> None:
    decision = preempted(policy(breaks_on_victims, breaks, name="candidate", shadow=True))

    assert [candidate.node for candidate in decision.kept] == ["a", "b", "c"]
    assert (decision.dropped, decision.would_drop) == ((), ())
    assert {failure.summary for failure in decision.failures} == {"policy candidate raised ValueError"}


def test_the_journal_and_why_tell_it_apart() -> None:
    dropped, shadowed = ("a", "live", "not a"), ("b", "candidate", "not b")
    entry = Journal().note(
        "preempt", PodRef.of(make_pod("p")), generation=1, dropped=(dropped,), would_drop=(shadowed,)
    )

    assert [(each.policy, each.nodes, each.shadow) for each in left_out(entry)] == [
        ("live", ["a"], False),
        ("candidate", ["b"], True),
    ]
    read = entry_of(line_of(entry, nodes=0), ())
    assert (read.dropped, read.would_drop) == ((dropped,), (shadowed,))


def test_its_refusals_are_counted_apart() -> None:
    metrics = Metrics(version="test")
    decision = filter_nodes([policy(not_a, name="candidate", shadow=True)], ask())

    metrics.decided("filter", decision, observe=False)

    text = metrics.render().decode()
    assert 'bayplan_rejections_total{mode="shadow",policy="candidate",reason="not a"} 1.0' in text
    assert 'bayplan_nodes_total{verb="filter",verdict="passed"} 3.0' in text
