"""NodeAffinity: a pod goes to the nodes that its selector and its terms choose."""

from datetime import UTC, datetime
from typing import Any

import pytest

from bayplan import Verdict
from bayplan.authoring.hooks import PolicyError
from bayplan.authoring.load import load
from bayplan.engine.choose import Choice, choose
from bayplan.policies.default_profile.node_affinity import NodeAffinity, NodeAffinityArgs
from bayplan.testing import make_cluster, make_node, make_pod, run_policy

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
CLUSTER = make_cluster(
    [
        make_node("fast", labels={"disk": "ssd", "gen": "3"}),
        make_node("slow", labels={"disk": "hdd", "gen": "2"}),
        make_node("odd", labels={"disk": "tape", "gen": "three"}),
        make_node("bare"),
    ]
)


def labels(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def names(*values: str, operator: str = "In") -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": list(values)}]}


def pod(*terms: dict[str, Any], selector: dict[str, str] | None = None, wishes: Any = None) -> Any:
    affinity: dict[str, Any] = {}
    if terms:
        affinity[REQUIRED] = {"nodeSelectorTerms": list(terms)}
    if wishes is not None:
        affinity[PREFERRED] = [{"weight": weight, "preference": term} for weight, term in wishes]
    return make_pod(spec={"affinity": {"nodeAffinity": affinity}, "nodeSelector": selector or {}})


def chosen(wanted: Any) -> Choice:
    return choose([load("NodeAffinity")[0].make()], wanted, CLUSTER, now=NOON)


@pytest.mark.parametrize(
    ("wanted", "passed"),
    [
        pytest.param(pod(), ["fast", "slow", "odd", "bare"], id="no wish"),
        pytest.param(pod(selector={"disk": "ssd"}), ["fast"], id="a selector"),
        pytest.param(pod(selector={"disk": "ssd", "gen": "2"}), [], id="all labels of a selector"),
        pytest.param(pod(labels("disk", "In", "ssd", "hdd")), ["fast", "slow"], id="In"),
        pytest.param(pod(labels("disk", "NotIn", "ssd")), ["slow", "odd", "bare"], id="NotIn"),
        pytest.param(pod(labels("disk", "Exists")), ["fast", "slow", "odd"], id="Exists"),
        pytest.param(pod(labels("disk", "DoesNotExist")), ["bare"], id="DoesNotExist"),
        pytest.param(pod(labels("gen", "Gt", "2")), ["fast"], id="Gt, of numbers alone"),
        pytest.param(pod(labels("gen", "Lt", "3")), ["slow"], id="Lt"),
        pytest.param(pod(labels("gen", "Gt", "two")), [], id="a limit that is no number"),
        pytest.param(pod(labels("disk", "Near", "ssd")), [], id="an operator that nobody knows"),
        pytest.param(
            pod(labels("disk", "In", "ssd"), labels("gen", "In", "2")), ["fast", "slow"], id="one term"
        ),
        pytest.param(pod({}), [], id="an empty term matches nothing"),
        pytest.param(pod({}, labels("disk", "In", "ssd")), ["fast"], id="and takes nothing from another"),
        pytest.param(
            pod({**labels("disk", "Exists"), **names("slow", operator="NotIn")}),
            ["fast", "odd"],
            id="not a name",
        ),
        pytest.param(pod(names("slow")), ["slow"], id="a name"),
        pytest.param(
            pod(names("slow"), labels("disk", "In", "ssd")), ["fast", "slow"], id="a name or a label"
        ),
        pytest.param(pod({**labels("disk", "In", "ssd"), **names("slow")}), [], id="a name and a label"),
        pytest.param(
            pod(labels("disk", "Exists"), selector={"gen": "2"}), ["slow"], id="selector and terms together"
        ),
    ],
)
def test_filter(wanted: Any, passed: list[str]) -> None:
    result = run_policy(NodeAffinity, wanted, CLUSTER)

    assert result.passed == passed


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        pytest.param(
            pod(selector={"disk": "none"}),
            "0/4 nodes are available: 4 node(s) didn't match Pod's node affinity/selector.",
            id="a label that nobody has",
        ),
        pytest.param(
            pod(names("gone")),
            "0/4 nodes are available: 4 node(s) didn't satisfy plugin(s) [NodeAffinity].",
            id="a node that is not there",
        ),
        pytest.param(
            pod({**names("slow"), **labels("disk", "In", "ssd")}),
            "0/4 nodes are available: 1 node(s) didn't match Pod's node affinity/selector,"
            " 3 node(s) didn't satisfy plugin(s) [NodeAffinity].",
            id="the named node does not match",
        ),
        pytest.param(
            pod(
                {"matchFields": [*names("slow")["matchFields"], *names("fast")["matchFields"]]},
                {"matchFields": [*names("slow")["matchFields"], *names("odd")["matchFields"]]},
            ),
            "0/4 nodes are available: pod affinity terms conflict.",
            id="no node has two names",
        ),
    ],
)
def test_the_sentence(wanted: Any, told: str) -> None:
    assert chosen(wanted).message == told


def test_nodes_that_are_not_named_are_told_so_before_any_other_rule() -> None:
    cluster = make_cluster(
        [make_node("named", unschedulable=True), make_node("cordoned", unschedulable=True), make_node("open")]
    )
    policies = [load(name)[0].make() for name in ("NodeUnschedulable", "NodeAffinity")]

    choice = choose(policies, pod(names("named")), cluster, now=NOON)

    assert choice.message == (
        "0/3 nodes are available: 1 node(s) were unschedulable,"
        " 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )


def test_a_name_is_found_among_a_few_of_the_nodes_too() -> None:
    part = CLUSTER.nodes.take(CLUSTER.find(["bare", "odd", "slow"]))
    policy = NodeAffinity(NodeAffinityArgs())
    wanted = pod({**names("slow"), **labels("disk", "In", "hdd")})

    refused = policy.named(wanted, part, CLUSTER)

    assert isinstance(refused, Verdict)
    assert refused.rejected_names(part) == ["bare", "odd"]
    assert policy.matched(wanted, part, CLUSTER) is None


@pytest.mark.parametrize(
    ("wishes", "scores"),
    [
        pytest.param(
            [(10, labels("disk", "In", "ssd")), (5, labels("gen", "Lt", "9"))],
            {"fast": 100, "slow": 33, "odd": 0, "bare": 0},
            id="of the highest sum",
        ),
        pytest.param([(1, names("odd"))], {"fast": 0, "slow": 0, "odd": 100, "bare": 0}, id="a name"),
        pytest.param(
            [(7, labels("disk", "In", "none"))], dict.fromkeys(CLUSTER.nodes.names, 0), id="nobody matches"
        ),
        pytest.param([(7, {})], dict.fromkeys(CLUSTER.nodes.names, 0), id="an empty wish matches nobody"),
    ],
)
def test_score(wishes: Any, scores: dict[str, float]) -> None:
    assert run_policy(NodeAffinity, pod(wishes=wishes), CLUSTER).scores == scores


def test_a_pod_without_wishes_has_no_opinion() -> None:
    (outcome,) = run_policy(NodeAffinity, pod(labels("disk", "Exists")), CLUSTER).scored.outcomes

    assert (outcome.normalised, outcome.failure) == (None, None)


ADDED = {
    "addedAffinity": {
        REQUIRED: {"nodeSelectorTerms": [labels("disk", "In", "ssd", "hdd")]},
        PREFERRED: [{"weight": 4, "preference": labels("disk", "In", "hdd")}],
    }
}


def test_added_affinity_holds_for_every_pod_and_is_told_in_its_own_words() -> None:
    result = run_policy(NodeAffinity, pod(labels("gen", "In", "3")), CLUSTER, args=ADDED)

    enforced = "node(s) didn't match scheduler-enforced node affinity"
    assert result.refused == {
        "slow": "node(s) didn't match Pod's node affinity/selector",
        "odd": enforced,
        "bare": enforced,
    }


def test_added_wishes_count_beside_those_of_the_pod() -> None:
    result = run_policy(NodeAffinity, pod(wishes=[(1, labels("gen", "In", "3"))]), CLUSTER, args=ADDED)

    assert result.scores == {"fast": 25, "slow": 100}


@pytest.mark.parametrize(
    ("term", "told"),
    [
        pytest.param(labels("disk", "Is", "ssd"), "Invalid enum value 'Is'", id="an operator"),
        pytest.param(labels("disk", "In"), "In wants at least one of `values`, not 0", id="no values"),
        pytest.param(labels("gen", "Gt", "1", "2"), "Gt wants one of `values`, not 2", id="two limits"),
        pytest.param(
            labels("gen", "Exists", "1"), "Exists wants none of `values`, not 1", id="a value too many"
        ),
        pytest.param(names("a", "b"), "matchFields knows `metadata.name` alone", id="two names"),
        pytest.param({"matchExpression": []}, "unknown field `matchExpression`", id="a mistyped key"),
    ],
)
def test_added_affinity_that_makes_no_sense_is_an_error(term: dict[str, Any], told: str) -> None:
    args = {"addedAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}

    with pytest.raises((PolicyError, ValueError), match=told.replace("`", ".")):
        run_policy(NodeAffinity, pod(), CLUSTER, args=args)
