"""Preemption: protected pods stay, cheaper victims go first, and enough of each group is left."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from bayplan import Pod
from bayplan.authoring.load import load
from bayplan.engine.cycle import Question
from bayplan.engine.preempt import Candidate, PreemptDecision, choose_candidates
from bayplan.snapshot.cluster import Snapshot
from bayplan.testing import make_cluster, make_pod

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
URGENT = make_pod("urgent", priority=1000)
PROTECTED, COST = "bayplan.dev/protected", "bayplan.dev/eviction-cost"


def victim(
    name: str, node: str = "other", *, created: str = "", going: bool = False, notes: Any = None, **given: Any
) -> Pod:
    pod = make_pod(name, uid=name, node=node, annotations=notes, **given)
    assert pod.metadata is not None
    metadata = msgspec.structs.replace(
        pod.metadata,
        creation_timestamp=created or None,
        deletion_timestamp="2026-11-15T11:59:00Z" if going else None,
    )
    return msgspec.structs.replace(pod, metadata=metadata)


def choose(args: dict[str, Any], *pods: Pod, staying: tuple[Pod, ...] = ()) -> PreemptDecision:
    """What is left where each node would be freed of all these pods; the others stay."""
    nodes = list(dict.fromkeys(pod.node_name for pod in (*pods, *staying)))
    cluster: Snapshot = make_cluster(nodes, [*pods, *staying])
    candidates = [
        Candidate(node, there)
        for node in nodes
        if (there := tuple(pod.uid for pod in pods if pod.node_name == node))
    ]
    (found,) = load("Preemption")
    question = Question(URGENT, cluster.nodes, cluster, NOW)
    decision = choose_candidates([found.make(args=args)], question, candidates, victims={})
    assert decision.failures == ()
    return decision


def kept(decision: PreemptDecision) -> list[str]:
    return [candidate.node for candidate in decision.kept]


def dropped(decision: PreemptDecision) -> dict[str, str]:
    return {d.candidate.node: d.text for d in decision.dropped}


@pytest.mark.parametrize(
    ("rule", "guarded"),
    [
        pytest.param({"namespaces": ["kube-*"]}, True, id="its namespace"),
        pytest.param({"podSelector": {"matchLabels": {"app": "db"}}}, True, id="its label"),
        pytest.param({"priority": {"min": 100}}, True, id="its priority"),
        pytest.param({"priority": {"min": 101}}, False, id="a higher priority"),
        pytest.param({"ownerKinds": ["StatefulSet"]}, True, id="its owner"),
        pytest.param({"ownerKinds": ["Job"]}, False, id="another owner"),
        pytest.param({"namespaces": ["kube-*"], "priority": {"min": 101}}, False, id="one thing of two"),
    ],
)
def test_pods_that_a_rule_protects_are_no_victims(rule: dict[str, Any], guarded: bool) -> None:
    db = victim(
        "db", "a", namespace="kube-db", labels={"app": "db"}, priority=100, owner=("StatefulSet", "db")
    )

    decision = choose({"protect": [rule]}, db, victim("web", "b"))

    assert kept(decision) == (["b"] if guarded else ["a", "b"])
    assert dropped(decision) == ({"a": "pod kube-db/db is protected by protected"} if guarded else {})


@pytest.mark.parametrize(
    ("notes", "args", "why"),
    [
        pytest.param({}, {}, None, id="no annotation"),
        pytest.param({PROTECTED: "true"}, {}, "", id="true"),
        pytest.param({PROTECTED: "false"}, {}, None, id="false"),
        pytest.param(
            {PROTECTED: "ture"},
            {},
            f": its annotation {PROTECTED} is neither true nor false",
            id="a typo in the value",
        ),
        pytest.param(
            {"bayplan.dev/proteced": "true"},
            {},
            f": its annotation bayplan.dev/proteced is nearly {PROTECTED}",
            id="a typo in the key",
        ),
        pytest.param({PROTECTED: "true"}, {"protectAnnotation": "x.y/keep"}, None, id="another key"),
        pytest.param({"x.y/keep": "true"}, {"protectAnnotation": "x.y/keep"}, "", id="a key of one's own"),
        pytest.param({PROTECTED: "true"}, {"protectAnnotation": ""}, None, id="no annotation is heeded"),
    ],
)
def test_a_pod_may_protect_itself(notes: dict[str, str], args: dict[str, Any], why: str | None) -> None:
    decision = choose(args, victim("p", "a", notes=notes))

    assert dropped(decision) == (
        {} if why is None else {"a": f"pod default/p is protected by protected{why}"}
    )


@pytest.mark.parametrize(
    ("cost", "left"),
    [
        pytest.param(None, ["cheap"], id="eviction-cost by default"),
        pytest.param(["eviction-cost"], ["cheap"], id="eviction-cost"),
        pytest.param(["victims"], ["low", "old"], id="number of victims"),
        pytest.param(["highest-priority"], ["low", "cheap"], id="highest priority"),
        pytest.param(["priority-sum"], ["low"], id="sum of the priorities"),
        pytest.param(["age"], ["cheap"], id="age"),
        pytest.param(["victims", "age"], ["low"], id="where the first is equal the next one decides"),
        pytest.param(["highest-priority", "victims"], ["low"], id="two others"),
        pytest.param([], ["low", "cheap", "old"], id="nothing is preferred"),
    ],
)
def test_cheaper_victims_go_first(cost: list[str] | None, left: list[str]) -> None:
    at = "2026-11-15T{}:00Z".format
    decision = choose(
        {} if cost is None else {"cost": cost},
        victim("one", "low", priority=10, notes={COST: "5"}, created=at("10:00")),
        victim("two", "cheap", priority=10, notes={COST: "-10"}, created=at("11:30")),
        victim("three", "cheap", priority=9, notes={COST: "+12"}, created=at("11:30")),
        victim("four", "old", priority=20, notes={COST: "100"}, created=at("06:00")),
        staying=(victim("stays"),),
    )

    assert kept(decision) == left
    assert all(text.startswith("its victims cost more than those on ") for text in dropped(decision).values())


def test_a_pod_without_a_cost_costs_nothing() -> None:
    decision = choose({}, victim("plain", "a"), victim("dear", "b", notes={COST: "1"}))

    assert kept(decision) == ["a"]


@pytest.mark.parametrize(
    ("notes", "why"),
    [
        pytest.param({COST: "much"}, f"its annotation {COST} is no whole number", id="a word"),
        pytest.param({COST: "1.5"}, f"its annotation {COST} is no whole number", id="a half"),
        pytest.param({COST: ""}, f"its annotation {COST} is no whole number", id="nothing"),
        pytest.param(
            {"bayplan.dev/evicton-cost": "5"},
            f"its annotation bayplan.dev/evicton-cost is nearly {COST}",
            id="a mistyped key",
        ),
    ],
)
def test_a_cost_that_cannot_be_read_keeps_the_pod(notes: dict[str, str], why: str) -> None:
    decision = choose({}, victim("odd", "a", notes=notes), victim("dear", "b", notes={COST: "1000"}))

    assert kept(decision) == ["b"]
    assert dropped(decision) == {"a": f"pod default/odd: {why}"}


WEB = {"app": "web"}
ALL_WEB = {"podSelector": {"matchLabels": WEB}}


@pytest.mark.parametrize(
    ("least", "left"),
    [
        pytest.param(1, ["one", "two"], id="one may be left"),
        pytest.param(2, ["one"], id="two must stay"),
        pytest.param(3, [], id="all must stay"),
    ],
)
def test_enough_of_a_group_must_stay(least: int, left: list[str]) -> None:
    decision = choose(
        {"budgets": [{"pods": ALL_WEB, "minRunning": least}]},
        victim("w1", "one", labels=WEB),
        victim("w2", "two", labels=WEB),
        victim("w3", "two", labels=WEB),
        staying=(victim("going", labels=WEB, going=True), victim("db")),
    )

    assert kept(decision) == left
    if "two" in dropped(decision):
        assert dropped(decision)["two"] == f"fewer than {least} pods of the group of default/w2 would stay"


@pytest.mark.parametrize(
    ("most", "left"),
    [
        pytest.param(1, [], id="one goes already"),
        pytest.param(2, ["one"], id="one more"),
        pytest.param(3, ["one", "two"], id="two more"),
    ],
)
def test_only_so_many_of_a_group_go_at_once(most: int, left: list[str]) -> None:
    decision = choose(
        {"budgets": [{"pods": ALL_WEB, "maxTerminating": most}]},
        victim("w1", "one", labels=WEB),
        victim("w2", "two", labels=WEB),
        victim("w3", "two", labels=WEB),
        staying=(victim("going", labels=WEB, going=True), victim("db", going=True)),
    )

    assert kept(decision) == left
    if "one" in dropped(decision):
        assert dropped(decision)["one"] == "more than 1 of the group of default/w1 would be terminating"


def test_a_victim_that_goes_already_is_nobodys_loss() -> None:
    args = {"budgets": [{"pods": ALL_WEB, "minRunning": 1, "maxTerminating": 1}]}

    decision = choose(args, victim("w1", "one", labels=WEB, going=True), staying=(victim("w2", labels=WEB),))

    assert kept(decision) == ["one"]


@pytest.mark.parametrize(
    ("relation", "left"),
    [
        pytest.param({}, ["a", "b", "c"], id="all pods are one group"),
        pytest.param({"sameNamespace": True}, ["a", "b"], id="a group for each namespace"),
        pytest.param({"sameLabel": "app"}, ["a", "b"], id="a group for each value of a label"),
        pytest.param({"sameOwner": True}, ["a", "b", "c"], id="a group for each owner"),
    ],
)
def test_groups_are_told_apart(relation: dict[str, Any], left: list[str]) -> None:
    decision = choose(
        {"budgets": [{"pods": relation, "minRunning": 1}]},
        victim("a", "a", labels=WEB, owner=("ReplicaSet", "web")),
        victim("b", "b", labels=WEB, owner=("ReplicaSet", "web")),
        # Made by hand: where owners tell groups apart it belongs to none.
        victim("c", "c", labels={"app": "db"}, namespace="db"),
        staying=(victim("no-app", namespace="elsewhere"),),
    )

    assert kept(decision) == left


def test_what_another_group_loses_is_not_counted() -> None:
    pods = {"sameLabel": "app"}

    decision = choose(
        {"budgets": [{"pods": pods, "minRunning": 1, "maxTerminating": 1}]},
        victim("web-1", "a", labels=WEB),
        victim("db-1", "a", labels={"app": "db"}),
        staying=(
            victim("web-2", labels=WEB),
            victim("db-2", labels={"app": "db"}),
            victim("cache-1", labels={"app": "cache"}, going=True),
        ),
    )

    assert kept(decision) == ["a"]


def test_the_cheapest_is_sought_among_those_that_keep_the_budget() -> None:
    decision = choose(
        {"budgets": [{"pods": ALL_WEB, "minRunning": 1}]},
        victim("lonely", "a", labels=WEB),
        victim("dear", "b", notes={COST: "5"}),
        victim("dearer", "c", notes={COST: "6"}),
    )

    assert kept(decision) == ["b"]


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        pytest.param({"cost": ["victim"]}, "Invalid enum value 'victim'", id="a cost that is none"),
        pytest.param({"cost": ["age", "age"]}, "'age' is there twice", id="a cost that is there twice"),
        pytest.param({"costAnnotation": ""}, "needs a costAnnotation", id="a cost from nowhere"),
        pytest.param(
            {"budgets": [{"pods": {}}]}, "give `minRunning`, `maxTerminating`", id="a budget of none"
        ),
        pytest.param({"budgets": [{"minRunning": 0}]}, ">= 1", id="a budget that says nothing"),
        pytest.param({"protect": [{"namespace": ["x"]}]}, "unknown field `namespace`", id="a mistyped key"),
    ],
)
def test_mistaken_arguments_are_refused(args: dict[str, Any], complaint: str) -> None:
    (found,) = load("Preemption")

    with pytest.raises(msgspec.ValidationError, match=complaint):
        found.make(args=args)
