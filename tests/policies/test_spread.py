"""Spread: limits and evenness over any domain, for any group of pods."""

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.authoring.load import load
from bayplan.engine.cycle import Question, filter_nodes
from bayplan.engine.preempt import Candidate, choose_candidates
from bayplan.policies.spread import Spread
from bayplan.snapshot.cluster import Snapshot
from bayplan.testing import bind, make_cluster, make_node, make_pod, run_policy

WEB = {"app": "web"}
ALL_WEB = {"podSelector": {"matchLabels": WEB}}


def racks(*counts: int | None) -> Snapshot:
    """A node in each of racks 0, 1, ... with so many web pods; ``None`` is a node in no rack."""
    nodes = [
        make_node(f"rack-{number}" if count is not None else "no-rack", labels=_rack(number, count))
        for number, count in enumerate(counts)
    ]
    pods = [
        make_pod(f"web-{number}-{one}", node=f"rack-{number}", labels=WEB)
        for number, count in enumerate(counts)
        for one in range(count or 0)
    ]
    return make_cluster(nodes, pods)


def _rack(number: int, count: int | None) -> dict[str, str]:
    return {} if count is None else {"rack": str(number)}


@pytest.mark.parametrize(
    ("args", "counts", "passed"),
    [
        pytest.param({"maxPerDomain": 3}, (2, 3, 4), ["rack-0"], id="a full domain is refused"),
        pytest.param(
            {"maxSkew": 1}, (1, 1, 2), ["rack-0", "rack-1"], id="one ahead of the emptiest is enough"
        ),
        pytest.param({"maxSkew": 2}, (1, 2, 3), ["rack-0", "rack-1"], id="two ahead would be three"),
        pytest.param({"maxSkew": 1}, (0, 0, 0), ["rack-0", "rack-1", "rack-2"], id="the first goes anywhere"),
        pytest.param({"maxSkew": 1, "minDomains": 4}, (1, 1, 1), [], id="too few domains: the emptiest is 0"),
        pytest.param({"maxSkew": 1, "minDomains": 3}, (1, 2, 1), ["rack-0", "rack-2"], id="enough domains"),
        pytest.param({"maxSkew": 2, "maxPerDomain": 2}, (1, 2, 2), ["rack-0"], id="both limits hold"),
        pytest.param({"preferAtMost": 2}, (1, 2, 3), ["rack-0"], id="a wish that can be met"),
        pytest.param({"preferAtMost": 2}, (2, 2), ["rack-0", "rack-1"], id="a wish that cannot"),
        pytest.param(
            {"preferAtMost": 1, "maxPerDomain": 3}, (1, 2, 3), ["rack-0", "rack-1"], id="a wish and a rule"
        ),
        pytest.param({"preferAtMost": 1}, (1, 0, None), ["rack-1", "no-rack"], id="a node in no domain"),
    ],
)
def test_filter(args: dict[str, Any], counts: tuple[int, ...], passed: list[str]) -> None:
    result = run_policy(
        Spread, make_pod(labels=WEB), racks(*counts), args={"pods": ALL_WEB, "by": "rack", **args}
    )

    assert result.passed == passed


def test_each_refusal_says_what_is_wrong() -> None:
    args = {"pods": ALL_WEB, "by": "rack", "maxSkew": 2, "maxPerDomain": 4}

    result = run_policy(Spread, make_pod(labels=WEB), racks(1, 3, 4, None), args=args)

    assert result.refused == {
        "rack-1": "the rack is ahead of others with these pods",
        "rack-2": "the rack has 4 of these pods already",
        "no-rack": "node lacks label rack",
    }
    assert result.details == {
        "rack-1": "3 there, 1 in the emptiest",
        "rack-2": "4 there",
        "no-rack": "",
    }


def test_evicting_pods_helps_against_full_and_uneven_domains_only() -> None:
    args = {"pods": ALL_WEB, "by": "rack", "maxSkew": 2, "maxPerDomain": 4}

    result = run_policy(Spread, make_pod(labels=WEB), racks(1, 3, 4, None), args=args)

    refusals = [result.filtered.refusal(row) for row in (1, 2, 3)]
    assert [refusal.reason.preemptible for refusal in refusals if refusal] == [True, True, False]
    assert [sorted(refusal.reason.helped_by) for refusal in refusals if refusal] == [
        ["nodes", "pods"],
        ["nodes", "pods"],
        ["nodes"],
    ]


def test_by_default_the_domain_is_each_node() -> None:
    result = run_policy(Spread, make_pod(labels=WEB), racks(1, 0, None), args={"pods": {}, "maxPerDomain": 1})

    assert result.passed == ["rack-1", "no-rack"]
    assert result.refused == {"rack-0": "the node has 1 of these pods already"}


def test_several_labels_are_one_domain_together() -> None:
    places = {"a-1": ("a", "1"), "a-1-too": ("a", "1"), "a-2": ("a", "2"), "b-1": ("b", "1")}
    nodes = [make_node(name, zone=zone, labels={"rack": rack}) for name, (zone, rack) in places.items()]
    cluster = make_cluster(
        [*nodes, make_node("no-rack", zone="a")], [make_pod("there", node="a-1", labels=WEB)]
    )

    result = run_policy(
        Spread, make_pod(labels=WEB), cluster, args={"pods": {}, "by": ["zone", "rack"], "maxPerDomain": 1}
    )

    assert result.passed == ["a-2", "b-1"]
    assert result.refused == {
        "a-1": "the zone/rack has 1 of these pods already",
        "a-1-too": "the zone/rack has 1 of these pods already",
        "no-rack": "node lacks label zone or rack",
    }


@pytest.mark.parametrize(
    ("group", "pod", "passed"),
    [
        pytest.param(ALL_WEB, {"labels": WEB}, False, id="by a selector"),
        pytest.param(
            {"podSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}},
            {"labels": {"app": "db"}},
            False,
            id="by an expression",
        ),
        pytest.param(ALL_WEB, {"labels": {"app": "db"}}, True, id="a pod outside of the group goes anywhere"),
        pytest.param({"namespaces": ["team-*"]}, {"namespace": "team-b"}, False, id="by namespace, with *"),
        pytest.param(
            {"namespaces": ["other"]}, {"namespace": "other"}, True, id="nobody is in the namespace"
        ),
        pytest.param({"sameNamespace": True}, {"namespace": "team-a"}, False, id="in the same namespace"),
        pytest.param({"sameNamespace": True}, {"namespace": "team-b"}, True, id="in another namespace"),
        pytest.param(
            {"sameOwner": True}, {"owner": ("ReplicaSet", "web")}, False, id="replicas of one owner"
        ),
        pytest.param({"sameOwner": True}, {"owner": ("ReplicaSet", "x")}, True, id="another owner"),
        pytest.param({"sameOwner": True}, {}, True, id="a pod made by hand is in no group of replicas"),
        pytest.param({"sameLabel": "app"}, {"labels": WEB}, False, id="with the same value"),
        pytest.param({"sameLabel": "app"}, {"labels": {"app": "db"}}, True, id="with another value"),
        pytest.param({"sameLabel": "app"}, {}, True, id="without the label"),
        pytest.param(
            {"sameLabel": ["app", "tier"]}, {"labels": {**WEB, "tier": "1"}}, False, id="several labels alike"
        ),
        pytest.param(
            {"sameLabel": ["app", "tier"]}, {"labels": {**WEB, "tier": "2"}}, True, id="one of them differs"
        ),
    ],
)
def test_the_group(group: dict[str, Any], pod: dict[str, Any], passed: bool) -> None:
    there = make_pod(
        "there",
        namespace="team-a",
        node="n",
        labels={**WEB, "tier": "1"},
        owner=("ReplicaSet", "web"),
    )

    result = run_policy(
        Spread, make_pod(**pod), make_cluster(["n"], [there]), args={"pods": group, "maxPerDomain": 1}
    )

    assert bool(result.passed) is passed


def test_nodes_that_the_pod_may_not_use_do_not_keep_it_waiting() -> None:
    cluster = make_cluster(
        [make_node("used", labels={"disk": "ssd"}), make_node("not-for-us", labels={"disk": "hdd"})],
        [make_pod("there", node="used", labels=WEB)],
    )
    picky = make_pod(labels=WEB, spec={"nodeSelector": {"disk": "ssd"}})
    args = {"pods": ALL_WEB, "maxSkew": 1}

    assert "used" in run_policy(Spread, picky, cluster, args=args).passed
    assert "used" not in run_policy(Spread, make_pod(labels=WEB), cluster, args=args).passed


def test_the_emptiest_domain_counts_though_kube_scheduler_did_not_offer_it() -> None:
    cluster = racks(0, 1)
    (spread,) = load("Spread")
    policy = spread.make(args={"pods": ALL_WEB, "by": "rack", "maxSkew": 1})
    offered = cluster.nodes.take(cluster.find(["rack-1"]), ["rack-1"])

    decision = filter_nodes([policy], Question(make_pod(labels=WEB), offered, cluster, datetime.now(UTC)))

    assert decision.passed_names == []


def test_as_a_wish_it_refuses_nobody_and_scores_fewer_higher() -> None:
    args = {"pods": ALL_WEB, "by": "rack", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}

    result = run_policy(Spread, make_pod(labels=WEB), racks(0, 2, 4, None), args=args)

    assert result.passed == ["rack-0", "rack-1", "rack-2", "no-rack"]
    assert result.scores == pytest.approx({"rack-0": 100, "rack-1": 50, "rack-2": 0, "no-rack": 0})


def test_where_more_skew_is_tolerated_a_pod_more_matters_less() -> None:
    args = {"pods": ALL_WEB, "by": "rack", "maxSkew": 5, "whenUnsatisfiable": "ScheduleAnyway"}

    result = run_policy(Spread, make_pod(labels=WEB), racks(0, 4), args=args)

    # The cost is 4 more for each: 4 and 8, of 8.
    assert result.scores == pytest.approx({"rack-0": 100, "rack-1": 50})


@pytest.mark.parametrize(
    ("args", "pod"),
    [
        pytest.param({"maxSkew": 1}, {"labels": WEB}, id="a hard rule"),
        pytest.param({"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}, {}, id="a pod outside"),
    ],
)
def test_no_opinion(args: dict[str, Any], pod: dict[str, Any]) -> None:
    result = run_policy(Spread, make_pod(**pod), racks(0, 0), args={"pods": ALL_WEB, "by": "rack", **args})

    (outcome,) = result.scored.outcomes
    assert outcome.score is not None
    assert np.isnan(outcome.score.scores).all()


def test_who_comes_too_late_is_refused_at_bind() -> None:
    args = {"pods": ALL_WEB, "by": "rack", "maxPerDomain": 2}
    first = bind(Spread, make_pod("first", labels=WEB), "rack-0", racks(1, 0), args=args)

    second = bind(Spread, make_pod("second", labels=WEB), "rack-0", first.cluster, args=args)

    assert first.refusal == ""
    assert second.refusal == "node rack-0: the rack has 2 of these pods already, just now"


def test_with_its_victims_gone_a_full_node_is_a_candidate_and_another_rack_is_not() -> None:
    cluster = racks(1, 2)
    (spread,) = load("Spread")
    policy = spread.make(args={"pods": ALL_WEB, "by": "rack", "maxPerDomain": 1})
    candidates = [Candidate(name, (cluster.pods_on(name)[0].uid,)) for name in ("rack-0", "rack-1")]
    question = Question(make_pod(labels=WEB), cluster.nodes, cluster, datetime.now(UTC))

    decision = choose_candidates([policy], question, candidates, victims={})

    assert [candidate.node for candidate in decision.kept] == ["rack-0"]
    assert [dropped.text for dropped in decision.dropped] == ["the rack has 1 of these pods already"]


_SPREADS = st.fixed_dictionaries(
    {}, optional={"maxPerDomain": st.integers(1, 4), "maxSkew": st.integers(1, 3)}
)


@given(_SPREADS.filter(bool), st.lists(st.integers(0, 5), min_size=4, max_size=30))
@settings(deadline=None, max_examples=60)
def test_whoever_is_bound_in_whatever_order_no_domain_breaks_the_rule(
    limits: dict[str, int], wishes: list[int]
) -> None:
    cluster = make_cluster(
        [make_node(f"n{number}", labels={"rack": str(number // 2)}) for number in range(6)]
    )
    args = {"pods": ALL_WEB, "by": "rack", **limits}

    for number, wish in enumerate(wishes):
        cluster = bind(Spread, make_pod(f"p{number}", labels=WEB), f"n{wish}", cluster, args=args).cluster

        placed = Counter(int(pod.node_name[1:]) // 2 for pod in cluster.pods)
        counts = [placed[rack] for rack in range(3)]
        assert max(counts) <= limits.get("maxPerDomain", 30)
        assert max(counts) - min(counts) <= limits.get("maxSkew", 30)
