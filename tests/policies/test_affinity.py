"""Affinity: pods and nodes by any relation of labels; pods with, not with and near other pods."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.authoring.load import load
from bayplan.engine.cycle import Question
from bayplan.engine.preempt import Candidate, choose_candidates
from bayplan.policies.affinity import Affinity
from bayplan.snapshot.cluster import Snapshot
from bayplan.testing import bind, make_cluster, make_node, make_pod, run_policy

DB, BATCH = (
    {"podSelector": {"matchLabels": {"app": "db"}}},
    {"podSelector": {"matchLabels": {"app": "batch"}}},
)
TEAMS = make_cluster(
    [
        make_node("of-a", labels={"team": "a", "generation": "2"}, annotations={"teams": "a, c"}),
        make_node("of-b", labels={"team": "b", "generation": "5"}, annotations={"teams": "b"}),
        make_node("of-nobody"),
    ]
)


def passed(rule: dict[str, Any], pod: Any, cluster: Snapshot) -> list[str]:
    return run_policy(Affinity, pod, cluster, args={"rules": [rule]}).passed


@pytest.mark.parametrize(
    ("rule", "labels", "expected"),
    [
        pytest.param({}, {"team": "a"}, ["of-a"], id="only nodes with the same label"),
        pytest.param({}, {"team": "z"}, [], id="a team without nodes"),
        pytest.param({}, {}, ["of-a", "of-b", "of-nobody"], id="a pod without the label goes anywhere"),
        pytest.param(
            {"onMissing": {"pod": "refuse"}}, {}, ["of-nobody"], id="unless the nodes are kept for the teams"
        ),
        pytest.param(
            {"onMissing": {"node": "pass"}},
            {"team": "a"},
            ["of-a", "of-nobody"],
            id="nobody's nodes are free",
        ),
        pytest.param({"operator": "NotEqual"}, {"team": "a"}, ["of-b", "of-nobody"], id="any but the same"),
        pytest.param(
            {"operator": "NotEqual", "onMissing": {"node": "refuse"}},
            {"team": "a"},
            ["of-b"],
            id="any but the same, and it must be somebody's",
        ),
        pytest.param(
            {"nodeAnnotation": "teams", "operator": "In"},
            {"team": "c"},
            ["of-a"],
            id="one of the node's list",
        ),
        pytest.param(
            {"nodeAnnotation": "teams", "operator": "NotIn"},
            {"team": "c"},
            ["of-b", "of-nobody"],
            id="none of the node's list",
        ),
        pytest.param(
            {"nodeLabel": "team", "operator": "In", "separator": "_"},
            {"team": "b"},
            ["of-b"],
            id="a list in a label",
        ),
    ],
)
def test_a_label_of_the_pod_against_one_of_the_node(
    rule: dict[str, Any], labels: dict[str, str], expected: list[str]
) -> None:
    assert passed({"podLabel": "team", **rule}, make_pod(labels=labels), TEAMS) == expected


@pytest.mark.parametrize(
    ("operator", "needs", "expected"),
    [
        pytest.param("Lte", "2", ["of-a", "of-b"], id="at most the node's"),
        pytest.param("Lt", "2", ["of-b"], id="less than the node's"),
        pytest.param("Gte", "2.0", ["of-a"], id="at least the node's"),
        pytest.param("Gt", "5", ["of-a"], id="more than the node's"),
        pytest.param("Lte", "many", [], id="what is no number suits nothing"),
    ],
)
def test_numbers(operator: str, needs: str, expected: list[str]) -> None:
    rule = {"podLabel": "needs", "nodeLabel": "generation", "operator": operator}

    assert passed(rule, make_pod(labels={"needs": needs}), TEAMS) == expected


def test_a_rule_is_for_the_pods_that_it_names() -> None:
    rule = {"podLabel": "team", "pods": {"namespaces": ["team-*"]}}

    assert passed(rule, make_pod(namespace="team-a", labels={"team": "a"}), TEAMS) == ["of-a"]
    assert passed(rule, make_pod(labels={"team": "a"}), TEAMS) == ["of-a", "of-b", "of-nobody"]


def test_rules_between_labels_need_no_pods() -> None:
    blind = Snapshot.build(TEAMS.nodes.objects, None)

    assert passed({"podLabel": "team"}, make_pod(labels={"team": "a"}), blind) == ["of-a"]


def customers(*names: str) -> Snapshot:
    """A node for each customer, with a pod of it; ``""`` is a node with a pod of no customer."""
    nodes = [
        make_node(f"{name or 'nobody'}-{i}", labels={"rack": str(i // 2)}) for i, name in enumerate(names)
    ]
    pods = [
        make_pod(f"p{i}", node=node.name, labels={"customer": name} if name else {})
        for i, (node, name) in enumerate(zip(nodes, names, strict=True))
    ]
    return make_cluster([*nodes, make_node("no-rack")], pods)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        pytest.param(
            {"notWith": {"differentLabel": "customer"}},
            ["acme-0", "nobody-2", "no-rack"],
            id="customers never share a node",
        ),
        pytest.param(
            {"notWith": {"differentLabel": "customer"}, "by": "rack"},
            ["nobody-2", "no-rack"],
            id="nor a rack; a node in no rack shares none",
        ),
        pytest.param(
            {"notWith": {"sameLabel": "customer"}}, ["other-1", "nobody-2", "no-rack"], id="one each"
        ),
        pytest.param({"with": {"sameLabel": "customer"}}, ["acme-0"], id="together on a node"),
        pytest.param(
            {"with": {"sameLabel": "customer"}, "by": "rack"}, ["acme-0", "other-1"], id="in a rack"
        ),
    ],
)
def test_pods_with_and_not_with_others(rule: dict[str, Any], expected: list[str]) -> None:
    pod = make_pod(labels={"customer": "acme"})

    assert passed(rule, pod, customers("acme", "other", "")) == expected


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param({"notWith": {"differentLabel": "customer"}}, id="not with other customers"),
        pytest.param({"with": {"sameLabel": "customer"}}, id="with the same customer"),
        pytest.param({"with": {"sameOwner": True}}, id="with the same owner"),
    ],
)
def test_a_pod_that_has_not_what_the_rule_is_about_is_left_alone(rule: dict[str, Any]) -> None:
    assert passed(rule, make_pod(), customers("acme", "other")) == ["acme-0", "other-1", "no-rack"]


def apps(**app_by_node: str) -> Snapshot:
    """A node with one pod of that app on it, if any."""
    nodes = [make_node(name.replace("_", "-")) for name in app_by_node]
    pods = [
        make_pod(name, node=name.replace("_", "-"), labels={"app": app})
        for name, app in app_by_node.items()
        if app
    ]
    return make_cluster(nodes, pods)


@pytest.mark.parametrize(
    ("app", "symmetric", "expected"),
    [
        pytest.param("db", None, ["with-db", "empty"], id="who the rule is for"),
        pytest.param("batch", None, ["with-batch", "empty"], id="the others, when they come later"),
        pytest.param("batch", False, ["with-db", "with-batch", "empty"], id="unless only one side is bound"),
        pytest.param("web", None, ["with-db", "with-batch", "empty"], id="who is neither"),
    ],
)
def test_not_with_holds_whoever_comes_first(app: str, symmetric: bool | None, expected: list[str]) -> None:
    rule = {"pods": DB, "notWith": BATCH, **({} if symmetric is None else {"symmetric": symmetric})}
    cluster = apps(with_db="db", with_batch="batch", empty="")

    assert passed(rule, make_pod(labels={"app": app}), cluster) == expected


@pytest.mark.parametrize(
    ("rule", "labels", "expected"),
    [
        pytest.param(
            {"with": {"sameLabel": "job"}},
            {"job": "new"},
            ["with-db", "empty"],
            id="the first of its own group",
        ),
        pytest.param({"with": BATCH}, {"job": "new"}, [], id="but not when others are to come first"),
        pytest.param({"with": DB}, {"app": "db"}, ["with-db"], id="nor when one is there already"),
        pytest.param(
            {"with": {"differentLabel": "job"}}, {"job": "new"}, [], id="nobody differs from himself"
        ),
    ],
)
def test_the_first_pod_of_a_group_does_not_wait_for_itself(
    rule: dict[str, Any], labels: dict[str, str], expected: list[str]
) -> None:
    assert passed(rule, make_pod(labels=labels), apps(with_db="db", empty="")) == expected


def test_the_first_pod_of_a_group_still_needs_a_domain() -> None:
    pod = make_pod(labels={"customer": "new"})

    result = run_policy(
        Affinity,
        pod,
        customers("acme"),
        args={"rules": [{"with": {"sameLabel": "customer"}, "by": "rack"}]},
    )

    assert result.passed == ["acme-0"]
    assert result.refused == {"no-rack": "the rack lacks pods to be with"}


def test_two_firsts_of_a_group_end_up_together() -> None:
    args = {"rules": [{"with": {"sameLabel": "job"}}]}
    first = bind(
        Affinity, make_pod("1", labels={"job": "j"}), "empty", apps(with_db="db", empty=""), args=args
    )

    second = bind(Affinity, make_pod("2", labels={"job": "j"}), "with-db", first.cluster, args=args)

    assert first.refusal == ""
    assert second.refusal == "node with-db: the node lacks pods to be with, just now"
    assert bind(Affinity, make_pod("2", labels={"job": "j"}), "empty", first.cluster, args=args).refusal == ""


def test_near_scores_the_share_of_the_others() -> None:
    pods = [
        make_pod(f"db-{i}", node=node, labels={"app": "db"}) for i, node in enumerate(["two", "two", "one"])
    ]
    cluster = make_cluster(["two", "one", "none"], pods)

    near = run_policy(Affinity, make_pod(), cluster, args={"rules": [{"near": DB}]})
    apart = run_policy(Affinity, make_pod(), cluster, args={"rules": [{"notWith": DB, "weight": 1}]})

    assert near.scores == {"two": 100, "one": 50, "none": 0}
    assert apart.scores == {"two": 0, "one": 50, "none": 100}
    assert near.refused == apart.refused == {}


def test_wishes_are_weighed() -> None:
    rules = [{"podLabel": "team", "weight": 3}, {"near": DB}]
    cluster = make_cluster(
        [make_node("of-the-team", labels={"team": "a"}), make_node("near")],
        [make_pod("db", node="near", labels={"app": "db"})],
    )

    result = run_policy(Affinity, make_pod(labels={"team": "a"}), cluster, args={"rules": rules})

    assert result.scores == {"of-the-team": 75, "near": 25}


def test_without_a_wish_for_the_pod_there_is_no_opinion() -> None:
    rules = [{"podLabel": "team", "weight": 3}, {"podLabel": "customer"}]

    result = run_policy(Affinity, make_pod(labels={"customer": "c"}), TEAMS, args={"rules": rules})

    (outcome,) = result.scored.outcomes
    assert outcome.score is not None
    assert np.isnan(outcome.score.scores).all()


def test_each_rule_says_why_in_its_own_words_or_ours() -> None:
    rules = [
        {"podLabel": "team"},
        {"notWith": DB, "reason": "databases are alone"},
        {"with": BATCH, "by": "example.com/rack"},
    ]
    cluster = make_cluster(
        [
            make_node("of-b", labels={"team": "b"}),
            make_node("with-db", labels={"team": "a"}),
            make_node("lonely", labels={"team": "a"}),
        ],
        [make_pod("db", node="with-db", labels={"app": "db"})],
    )

    result = run_policy(Affinity, make_pod(labels={"team": "a"}), cluster, args={"rules": rules})

    assert result.refused == {
        "of-b": "node's team does not suit the pod's team",
        "with-db": "databases are alone",
        "lonely": "the rack lacks pods to be with",
    }
    reasons = [refusal.reason for row in range(3) if (refusal := result.filtered.refusal(row))]
    assert [reason.preemptible for reason in reasons] == [False, True, False]
    assert [set(reason.helped_by) for reason in reasons] == [{"nodes"}, {"pods"}, {"pods"}]


def test_evicting_the_others_makes_a_node_a_candidate() -> None:
    cluster = apps(with_db="db", with_both="db")
    cluster = cluster.placed(make_pod("more", labels={"app": "db"}), "with-both")
    (affinity,) = load("Affinity")
    policy = affinity.make(args={"rules": [{"pods": BATCH, "notWith": DB}]})
    candidates = [Candidate(name, (cluster.pods_on(name)[0].uid,)) for name in ("with-db", "with-both")]
    question = Question(make_pod(labels={"app": "batch"}), cluster.nodes, cluster, datetime.now(UTC))

    decision = choose_candidates([policy], question, candidates, victims={})

    assert [candidate.node for candidate in decision.kept] == ["with-db"]


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c", ""]), st.integers(0, 3)), max_size=25))
@settings(deadline=None, max_examples=60)
def test_whoever_is_bound_in_whatever_order_customers_never_share_a_rack(
    arrivals: list[tuple[str, int]],
) -> None:
    cluster = make_cluster(
        [make_node(f"n{number}", labels={"rack": str(number // 2)}) for number in range(4)]
    )
    args = {"rules": [{"notWith": {"differentLabel": "customer"}, "by": "rack"}]}

    for number, (customer, wish) in enumerate(arrivals):
        pod = make_pod(f"p{number}", labels={"customer": customer} if customer else {})
        bound = bind(Affinity, pod, f"n{wish}", cluster, args=args)
        there = {p.labels["customer"] for p in cluster.pods if _rack(p) == wish // 2 and p.labels}

        assert bool(bound.refusal) == bool(customer and there - {customer})
        cluster = bound.cluster


def _rack(pod: Any) -> int:
    return int(pod.node_name[1:]) // 2
