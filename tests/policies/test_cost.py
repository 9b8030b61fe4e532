"""Cost: prices from a label, a table or a source; cheap nodes, full nodes, spot nodes, and budgets."""

from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.authoring.load import load
from bayplan.config.rehearse import rehearse
from bayplan.engine.cycle import Question
from bayplan.engine.preempt import Candidate, choose_candidates
from bayplan.policies.cost import Cost
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.row import Node
from bayplan.testing import bind, make_cluster, make_node, make_pod, run_policy
from bayplan.testing.run import Result

PRICE = "example.com/price"
CAPACITY = "karpenter.sh/capacity-type"
BY_LABEL = {"priceLabel": PRICE}


def priced(name: str, price: object = None, **settings: Any) -> Node:
    """A node with its price in a label; ``None`` is a node without one."""
    return make_node(name, labels={} if price is None else {PRICE: str(price)}, **settings)


def machine(name: str, kind: str = "", *, zone: str | None = None, spot: bool = False) -> Node:
    """A node of an instance type."""
    labels = {"node.kubernetes.io/instance-type": kind} if kind else {}
    return make_node(name, zone=zone, labels={**labels, **({CAPACITY: "spot"} if spot else {})})


def prices(cluster: Snapshot, **args: Any) -> dict[str, float | None]:
    """What each node costs, as the details of the scores tell it."""
    result = run_policy(Cost, make_pod(), cluster, args=args)
    (outcome,) = result.scored.outcomes
    assert outcome.score is not None
    said = [outcome.score.explain(row).removesuffix(" an hour") for row in range(len(cluster.nodes))]
    return {n: None if s == "?" else float(s) for n, s in zip(cluster.nodes.names, said, strict=True)}


def refusals(result: Result) -> set[str]:
    return set(result.refused.values())


TABLE = [
    {"perHour": 9},
    {"instanceType": "m5", "perHour": 1},
    {"instanceType": "m5", "capacityType": "spot", "perHour": 0.4},
    {"instanceType": "m5", "capacityType": "spot", "zone": "b", "perHour": 0.3},
    {"capacityType": "on-demand", "zone": "c", "perHour": 5},
]


@pytest.mark.parametrize(
    ("node", "price"),
    [
        pytest.param(machine("n", "m5"), 1, id="by instance type"),
        pytest.param(machine("n", "m5", zone="b"), 1, id="a row for spot is not for on-demand"),
        pytest.param(machine("n", "m5", zone="a", spot=True), 0.4, id="two keys say more than one"),
        pytest.param(machine("n", "m5", zone="b", spot=True), 0.3, id="three say more than two"),
        pytest.param(machine("n", "m5", zone="c"), 5, id="two others say more than one"),
        pytest.param(machine("n", "p3"), 9, id="a row without keys is for all the rest"),
        pytest.param(machine("n"), 9, id="and for a node that says nothing of itself"),
    ],
)
def test_the_row_that_says_most_of_a_node_has_its_price(node: Node, price: float) -> None:
    # Beside others: codes of types and zones must not be mixed up.
    others = [machine("x", "p3", zone="z"), machine("y", "m5", zone="b", spot=True)]

    assert prices(make_cluster([*others, node]), table=TABLE)["n"] == price


def test_a_node_that_no_row_fits_has_no_price() -> None:
    cluster = make_cluster([machine("known", "m5"), machine("unknown", "p3")])

    found = prices(cluster, table=[{"instanceType": "m5", "perHour": 2}])

    assert found == {"known": 2, "unknown": None}


def test_the_label_goes_before_the_table_and_the_table_before_the_source() -> None:
    kind = {"node.kubernetes.io/instance-type": "m5"}
    cluster = make_cluster(
        [
            make_node("label", labels={PRICE: "1", **kind}),
            make_node("table", labels=kind),
            "source",
            "nobody",
        ],
        sources={"market": {name: {"price": 3.0} for name in ("label", "table", "source")}},
    )
    table = [{"instanceType": "m5", "perHour": 2}]

    found = prices(cluster, priceLabel=PRICE, table=table, priceSource="market.price")

    assert found == {"label": 1, "table": 2, "source": 3, "nobody": None}


@pytest.mark.parametrize("said", ["cheap", "-1", "", "nan", "1e300"])
def test_a_label_that_is_no_price_is_none(said: str) -> None:
    assert prices(make_cluster([priced("n", said)]), **BY_LABEL) == {"n": None}


@pytest.mark.parametrize(
    ("on_missing", "passed", "scores"),
    [
        pytest.param(
            "pass", ["cheap", "dear", "unknown"], {"cheap": 100, "dear": 25, "unknown": 50}, id="pass"
        ),
        pytest.param("refuse", ["cheap", "dear"], {"cheap": 100, "dear": 25}, id="refuse"),
        pytest.param(
            "dearest", ["cheap", "dear", "unknown"], {"cheap": 100, "dear": 25, "unknown": 25}, id="dearest"
        ),
    ],
)
def test_a_node_without_a_price(on_missing: str, passed: list[str], scores: dict[str, float]) -> None:
    cluster = make_cluster([priced("cheap", 1), priced("dear", 4), priced("unknown")])

    result = run_policy(Cost, make_pod(cpu=1), cluster, args={**BY_LABEL, "onMissing": on_missing})

    assert result.passed == passed
    assert result.scores == pytest.approx(scores)
    assert refusals(result) <= {"price of the node is not known"}


def test_where_no_price_is_known_none_is_the_dearest() -> None:
    result = run_policy(
        Cost, make_pod(cpu=1), make_cluster(["a", "b"]), args={**BY_LABEL, "onMissing": "dearest"}
    )

    (outcome,) = result.scored.outcomes
    assert outcome.score is not None
    assert np.isnan(outcome.score.scores).all()


def test_expensive_nodes_are_left_alone_until_nothing_else_is_left() -> None:
    nodes = [priced("cheap", 1), priced("at-the-limit", 1.2), priced("dear", 1.21), priced("unknown")]
    args = {**BY_LABEL, "avoidAbove": 1.2}

    some = run_policy(Cost, make_pod(), make_cluster(nodes), args=args)
    rest = run_policy(Cost, make_pod(), make_cluster(nodes[2:3]), args=args)

    assert some.passed == ["cheap", "at-the-limit", "unknown"]
    assert some.refused == {"dear": "node is expensive, and cheaper ones are free"}
    assert some.details == {"dear": "1.21 an hour, avoided above 1.2"}
    assert rest.passed == ["dear"]


def test_the_score_is_the_cost_of_the_pod_and_not_the_size_of_the_node() -> None:
    cluster = make_cluster(
        [
            priced("small", 0.2, cpu=4, memory="16Gi"),
            priced("large", 3.2, cpu=64, memory="256Gi"),
            priced("twice", 0.4, cpu=4, memory="16Gi"),
        ]
    )

    asks = run_policy(Cost, make_pod(cpu=1, memory="4Gi"), cluster, args=BY_LABEL)
    asks_nothing = run_policy(Cost, make_pod(), cluster, args=BY_LABEL)

    assert asks.scores == pytest.approx({"small": 100, "large": 100, "twice": 50})
    assert asks_nothing.scores == pytest.approx({"small": 100, "large": 6.25, "twice": 50})


def test_nodes_that_cost_nothing_are_best() -> None:
    cluster = make_cluster([priced("own", 0), priced("rented", 1)])

    assert run_policy(Cost, make_pod(cpu=1), cluster, args=BY_LABEL).scores == {"own": 100, "rented": 0}


def test_a_share_counts_resources_by_weight_and_only_those_that_the_node_has() -> None:
    cluster = make_cluster(
        [
            priced("gpu", 10, cpu=10, allocatable={"example.com/gpu": 2}),
            priced("plain", 2, cpu=10),
        ]
    )
    resources = [{"name": "cpu"}, {"name": "example.com/gpu", "weight": 9}]

    result = run_policy(Cost, make_pod(cpu=5), cluster, args={**BY_LABEL, "resources": resources})

    # 10 * (1 * 5/10 + 9 * 0/2) / 10 = 0.5, and 2 * 5/10 = 1.
    assert result.scores == pytest.approx({"gpu": 100, "plain": 50})


def test_what_is_paid_for_is_filled_first_and_then_the_cheapest_empty_node() -> None:
    cluster = make_cluster(
        [
            priced("fuller", 9, cpu=4, memory="4Gi"),
            priced("used", 0.5, cpu=4, memory="4Gi"),
            priced("empty-cheap", 1, cpu=4, memory="4Gi"),
            priced("empty-dear", 2, cpu=4, memory="4Gi"),
            priced("only-daemons", 1, cpu=4, memory="4Gi"),
            priced("empty-unknown", cpu=4, memory="4Gi"),
        ],
        [
            make_pod("a", node="fuller", cpu=2, memory="2Gi"),
            make_pod("b", node="used", cpu=1, memory="1Gi"),
            make_pod("c", node="only-daemons", namespace="kube-system", cpu=2),
        ],
    )

    result = run_policy(Cost, make_pod(cpu=1, memory="1Gi"), cluster, args={**BY_LABEL, "fill": True})

    assert result.scores == pytest.approx(
        {
            "fuller": 87.5,
            "used": 75,
            "empty-cheap": 50,
            "empty-dear": 25,
            "only-daemons": 50,
            "empty-unknown": 50,
        }
    )
    (outcome,) = result.scored.outcomes
    assert outcome.score is not None
    assert np.isnan(outcome.score.scores[5])
    assert outcome.score.explain(0) == "0 an hour more, 75% full"
    assert outcome.score.explain(3) == "2 an hour more, 25% full"


def test_where_daemons_are_not_told_every_pod_makes_a_node_used() -> None:
    cluster = make_cluster(
        [priced("daemon", 9), priced("empty", 1)], [make_pod("d", node="daemon", namespace="kube-system")]
    )

    result = run_policy(Cost, make_pod(), cluster, args={**BY_LABEL, "fill": True, "daemons": None})

    assert result.best == "daemon"


CLASSES = {
    "classes": [
        {"pods": {"podSelector": {"matchLabels": {"app": "db"}}}, "require": "on-demand"},
        {"pods": {"namespaces": ["batch-*"]}, "prefer": "spot"},
        {"pods": {"namespaces": ["cheap"]}, "require": "spot"},
        {"pods": {"namespaces": ["prod"]}, "prefer": "on-demand"},
    ]
}


@pytest.mark.parametrize(
    ("pod", "passed", "text"),
    [
        pytest.param({"labels": {"app": "db"}}, ["demand"], "pod needs an on-demand node", id="required"),
        pytest.param({"namespace": "cheap"}, ["spot"], "pod needs a spot node", id="spot required"),
        pytest.param({"namespace": "batch-1"}, ["spot"], "pod prefers a spot node", id="preferred"),
        pytest.param(
            {"namespace": "prod"}, ["demand"], "pod prefers an on-demand node", id="demand preferred"
        ),
        pytest.param(
            {"namespace": "batch-1", "labels": {"app": "db"}},
            ["demand"],
            "pod needs an on-demand node",
            id="the first class is the pod's",
        ),
        pytest.param({}, ["spot", "demand"], None, id="in no class"),
    ],
)
def test_spot_and_on_demand(pod: dict[str, Any], passed: list[str], text: str | None) -> None:
    cluster = make_cluster([machine("spot", spot=True), machine("demand")])

    result = run_policy(Cost, make_pod(**pod), cluster, args={"capacityType": CLASSES})

    assert result.passed == passed
    assert refusals(result) == ({text} if text else set())


def test_a_preference_is_void_and_a_need_is_not_where_there_is_nothing_else() -> None:
    cluster = make_cluster([machine("demand")])

    def passed(namespace: str) -> list[str]:
        return run_policy(Cost, make_pod(namespace=namespace), cluster, args={"capacityType": CLASSES}).passed

    assert passed("batch-1") == ["demand"]
    assert passed("cheap") == []


def test_spot_is_what_the_label_says_it_is() -> None:
    cluster = make_cluster([make_node("spot", labels={"gke-spot": "true"}), machine("not", spot=True)])
    kinds = {"label": "gke-spot", "spot": ["true"], **CLASSES}

    result = run_policy(Cost, make_pod(namespace="cheap"), cluster, args={"capacityType": kinds})

    assert result.passed == ["spot"]


TEAMS = {**BY_LABEL, "budgets": [{"namespaces": ["team-*"], "perHour": 2}]}


def test_a_pod_is_refused_where_its_namespace_would_pass_its_budget() -> None:
    nodes = [priced("dear", 4, cpu=4, memory="4Gi"), priced("cheap", 1, cpu=4, memory="4Gi"), priced("free")]
    cluster = make_cluster(
        nodes,
        [
            make_pod("mine", namespace="team-a", node="dear", cpu=1, memory="1Gi"),
            make_pod("cpu-only", namespace="team-a", node="cheap", cpu=4),
            make_pod("theirs", namespace="team-b", node="dear", cpu=2, memory="2Gi"),
        ],
    )
    pod = make_pod(namespace="team-a", cpu=2, memory="2Gi")

    result = run_policy(Cost, pod, cluster, args=TEAMS)

    # 4 * 1/4 and 1 * (4/4 + 0)/2 are spent: 1.5. Half of a node is 2 here and 0.5 there.
    assert result.passed == ["cheap", "free"]
    assert result.refused == {"dear": "namespace budget is spent"}
    assert result.details == {"dear": "1.5 of 2 an hour are spent, 2 more here"}
    refusal = result.filtered.refusal(0)
    assert refusal is not None
    assert refusal.reason.preemptible
    assert refusal.reason.helped_by == {"pods", "nodes"}


@pytest.mark.parametrize(
    ("pod", "passed"),
    [
        pytest.param({"namespace": "team-a", "cpu": 1}, False, id="in the budget"),
        pytest.param({"namespace": "other", "cpu": 1}, True, id="a namespace without a budget"),
        pytest.param({"namespace": "team-a"}, True, id="a pod that costs nothing"),
    ],
)
def test_who_is_held_to_a_budget(pod: dict[str, Any], passed: bool) -> None:
    spent = make_pod("spent", namespace="team-a", node="n", cpu=4, memory="16Gi")

    result = run_policy(Cost, make_pod(**pod), make_cluster([priced("n", 3)], [spent]), args=TEAMS)

    assert bool(result.passed) is passed


def test_of_several_budgets_the_smallest_counts() -> None:
    budgets = [{"namespaces": ["*"], "perHour": 9}, {"namespaces": ["a", "b"], "perHour": 0.5}]
    args = {**BY_LABEL, "budgets": budgets}
    cluster = make_cluster([priced("n", 1, cpu=1, memory=100)])

    assert run_policy(Cost, make_pod(namespace="b", cpu=1, memory=1), cluster, args=args).passed == []
    assert run_policy(Cost, make_pod(namespace="c", cpu=1, memory=1), cluster, args=args).passed == ["n"]


def test_pods_on_other_nodes_count_at_bind_too() -> None:
    cluster = make_cluster([priced(name, 3, cpu=4, memory="4Gi") for name in ("a", "b")])

    def pod(name: str) -> Any:
        return make_pod(name, namespace="team-a", cpu=2, memory="2Gi")

    first = bind(Cost, pod("first"), "a", cluster, args=TEAMS)
    second = bind(Cost, pod("second"), "b", first.cluster, args=TEAMS)

    assert first.refusal == ""
    assert second.refusal == "node b: namespace budget is spent, just now"


@pytest.mark.parametrize("on_missing", ["refuse", "dearest"], ids=["no price", "no budget"])
def test_who_waits_for_a_price_is_told_of_when_it_changes(on_missing: str) -> None:
    budgets = [{"namespaces": ["*"], "perHour": 0}]
    cluster = make_cluster(["unknown", "known"], sources={"market": {"known": {"price": 1.0}}})

    args = {"priceSource": "market.price", "onMissing": on_missing, "budgets": budgets}
    refusal = run_policy(Cost, make_pod(cpu=1), cluster, args=args).filtered.refusal(0)

    assert refusal is not None
    assert "source:market" in refusal.reason.helped_by


def test_the_last_tenth_of_a_budget_can_be_spent() -> None:
    cluster = make_cluster([priced(name, 0.1) for name in ("a", "b", "c")])
    args = {**BY_LABEL, "budgets": [{"namespaces": ["*"], "perHour": 0.3}]}

    for name in ("a", "b", "c"):
        bound = bind(Cost, make_pod(name, cpu=4, memory="16Gi"), name, cluster, args=args)
        assert bound.refusal == ""
        cluster = bound.cluster


def test_a_node_that_is_as_dear_as_the_dearest_is_so_at_bind_too() -> None:
    cluster = make_cluster([priced("dear", 4), priced("unknown")])
    pod = make_pod(namespace="team-a", cpu=4, memory="16Gi")

    bound = bind(Cost, pod, "unknown", cluster, args={**TEAMS, "onMissing": "dearest"})

    assert bound.refusal == "node unknown: namespace budget is spent, just now"


def test_with_pods_of_the_namespace_gone_a_node_is_a_candidate_and_with_others_gone_it_is_not() -> None:
    cluster = make_cluster(
        [priced("mine", 2), priced("theirs", 2)],
        [
            make_pod("a", namespace="team-a", node="mine", cpu=4, memory="16Gi"),
            make_pod("b", namespace="team-b", node="theirs", cpu=4, memory="16Gi"),
        ],
    )
    (found,) = load("Cost")
    candidates = [Candidate(name, (cluster.pods_on(name)[0].uid,)) for name in ("mine", "theirs")]
    question = Question(make_pod(namespace="team-a", cpu=1), cluster.nodes, cluster, datetime.now(UTC))

    decision = choose_candidates([found.make(args=TEAMS)], question, candidates, victims={})

    assert [candidate.node for candidate in decision.kept] == ["mine"]
    assert [dropped.text for dropped in decision.dropped] == ["namespace budget is spent"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        pytest.param({}, "give `priceLabel`, `table` or `priceSource`, or `classes`", id="nothing"),
        pytest.param({"avoidAbove": 1}, "give `priceLabel`, `table` or `priceSource`", id="no prices"),
        pytest.param(
            {"capacityType": CLASSES, "fill": True},
            "no prices are known: give `priceLabel`",
            id="no prices to fill by",
        ),
        pytest.param({**BY_LABEL, "avoidAbove": -1}, "Expected `float` >= 0", id="less than free"),
        pytest.param({**BY_LABEL, "resources": [{"name": "pods"}]}, "no pod requests `pods`", id="pods"),
        pytest.param({**BY_LABEL, "daemons": {}}, "`daemons: {}` is all pods", id="everybody is a daemon"),
        pytest.param(
            {**BY_LABEL, "budgets": [{"perHour": 1}]}, "missing required field `namespaces`", id="of nobody"
        ),
        pytest.param(
            {"capacityType": {"classes": [{}]}}, "one of `prefer` and `require`", id="a class of nothing"
        ),
        pytest.param(
            {"capacityType": {"classes": [{"prefer": "spot", "require": "spot"}]}},
            "one of `prefer` and `require`",
            id="both",
        ),
        pytest.param(
            {"table": [{"instanceType": "a", "perHour": 1}, {"instanceType": "a", "perHour": 2}]},
            "table: two rows for instanceType a; keep one",
            id="a row twice",
        ),
        pytest.param(
            {"table": [{"instanceType": "a", "perHour": 1}, {"zone": "z", "perHour": 2}]},
            "the rows for instanceType a and for zone z say as much of one node;"
            " add a row for instanceType a, zone z",
            id="a tie",
        ),
        pytest.param(
            {
                "table": [
                    {"instanceType": "a", "zone": "z", "perHour": 1},
                    {"instanceType": "a", "capacityType": "spot", "perHour": 2},
                ]
            },
            "add a row for instanceType a, zone z, capacityType spot",
            id="a tie of two keys",
        ),
    ],
)
def test_a_mistake_is_an_error_at_load(args: dict[str, Any], message: str) -> None:
    (found,) = load("Cost")

    with pytest.raises(ValueError, match=message):
        found.make(args=args)


def test_a_tie_that_a_third_row_decides_is_none() -> None:
    table = [
        {"instanceType": "m5", "perHour": 1},
        {"zone": "a", "perHour": 2},
        {"instanceType": "m5", "zone": "a", "perHour": 3},
    ]

    assert prices(make_cluster([machine("n", "m5", zone="a")]), table=table) == {"n": 3}


def test_rows_that_no_node_can_fit_both_of_are_no_tie() -> None:
    table = [
        {"instanceType": "m5", "zone": "a", "perHour": 1},
        {"instanceType": "p3", "capacityType": "spot", "perHour": 2},
    ]

    assert prices(make_cluster([machine("n", "p3", zone="a", spot=True)]), table=table) == {"n": 2}


@pytest.mark.parametrize("args", [TEAMS, {**BY_LABEL, "fill": True}], ids=["budgets", "fill"])
def test_what_needs_pods_is_refused_at_load_where_pods_are_not_known(args: dict[str, Any]) -> None:
    (found,) = load("Cost")

    problems = rehearse([found.make(args=args)], pods_known=False)

    assert problems
    assert all("needs the placed pods" in problem for problem in problems)


def test_prices_alone_need_no_pods() -> None:
    (found,) = load("Cost")

    assert rehearse([found.make(args={**BY_LABEL, "avoidAbove": 1})], pods_known=False) == []


_PODS = st.tuples(st.integers(0, 3), st.integers(0, 1500), st.sampled_from(["team-a", "team-b"]))


@given(
    cents=st.lists(st.integers(0, 500), min_size=4, max_size=4),
    budget=st.integers(0, 600),
    pods=st.lists(_PODS, max_size=25),
)
@settings(deadline=None, max_examples=60)
def test_whoever_is_bound_in_whatever_order_no_namespace_passes_its_budget_and_nobody_is_refused_needlessly(
    cents: list[int], budget: int, pods: list[tuple[int, int, str]]
) -> None:
    cluster = make_cluster(
        [priced(f"n{n}", price / 100, cpu=n + 1, memory=1000) for n, price in enumerate(cents)]
    )
    args = {**BY_LABEL, "budgets": [{"namespaces": ["team-*"], "perHour": budget / 100}]}
    spent = {"team-a": Fraction(0), "team-b": Fraction(0)}

    for number, (node, milli, namespace) in enumerate(pods):
        pod = make_pod(f"p{number}", namespace=namespace, cpu=f"{milli}m", memory=milli // 10)
        bound = bind(Cost, pod, f"n{node}", cluster, args=args)
        share = (Fraction(milli, (node + 1) * 1000) + Fraction(milli // 10, 1000)) / 2
        cost = Fraction(cents[node], 100) * share
        fits = cost == 0 or spent[namespace] + cost <= Fraction(budget, 100)

        assert (bound.refusal == "") is fits
        cluster = bound.cluster
        spent[namespace] += cost if fits else 0
