"""Two decisions about the same nodes: who passes where, which nodes are best, and what becomes of the pod."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import bayplan
from bayplan import Reason
from bayplan.authoring.registry import Policy
from bayplan.engine.cycle import Question, filter_nodes, score_nodes
from bayplan.engine.decision import Decision
from bayplan.engine.differ import NodeDifference, Word, filtered_differently, scored_differently, turn
from bayplan.snapshot.cluster import Snapshot
from bayplan.testing import make_cluster, make_pod
from bayplan.wire.scale import to_wire
from tests.web.decided import NOON, made

NAMES = ("a", "b", "c", "d", "e")
CLUSTER = make_cluster(NAMES)
UNWANTED = Reason("not wanted", detail="it is {name}")


def refusing(*refused: str) -> Policy:
    @bayplan.filter
    def picky(pod: Any, nodes: Any) -> Any:
        return UNWANTED.where([name in refused for name in nodes.names], name=list(nodes.names))

    return made("picky", picky)


def scoring(**scores: float) -> Policy:
    @bayplan.score(range=(0, 100))
    def rank(pod: Any, nodes: Any) -> Any:
        return [float(scores.get(name, 0)) for name in nodes.names]

    return made("rank", rank)


def decided(judge: Callable[..., Decision], *policies: Policy, cluster: Snapshot = CLUSTER) -> Decision:
    question = Question(make_pod("web-1"), cluster.nodes, cluster, NOON)
    return judge(policies, question)


@pytest.mark.parametrize(
    ("live", "candidate", "result", "refused", "accepted"),
    [
        pytest.param([], [], "same", 0, 0, id="both pass all"),
        pytest.param(["a"], ["a"], "same", 0, 0, id="both refuse the same"),
        pytest.param(["a"], ["a", "b", "c"], "refuses_more", 2, 0, id="two nodes fewer"),
        pytest.param(["a", "b"], ["b"], "accepts_more", 0, 1, id="one node more"),
        pytest.param(["a"], ["b", "c"], "mixed", 2, 1, id="some more and some fewer"),
    ],
)
def test_nodes_that_pass_only_one_of_them_are_a_difference(
    live: Sequence[str], candidate: Sequence[str], result: str, refused: int, accepted: int
) -> None:
    found = filtered_differently(
        decided(filter_nodes, refusing(*live)), decided(filter_nodes, refusing(*candidate))
    )

    assert (found.result, found.refused, found.accepted) == (result, refused, accepted)
    assert (found.live.passed, found.candidate.passed) == (5 - len(live), 5 - len(candidate))
    assert found.turn == ""


def test_another_reason_for_the_same_nodes_is_no_difference() -> None:
    @bayplan.filter
    def otherwise(pod: Any, nodes: Any) -> Any:
        return Reason("for another reason").where([name == "a" for name in nodes.names])

    live, candidate = (decided(filter_nodes, p) for p in (refusing("a"), made("other", otherwise)))

    assert filtered_differently(live, candidate).result == "same"


def test_a_few_nodes_are_shown_with_what_each_side_says() -> None:
    live, candidate = (decided(filter_nodes, refusing(*names)) for names in (["e"], ["a", "b", "c", "d"]))

    found = filtered_differently(live, candidate)

    refused = Word(passes=False, policy="picky", reason="not wanted", detail="it is a")
    assert found.nodes[0] == NodeDifference("a", Word(), refused)
    assert [(each.node, each.live.passes, each.candidate.passes) for each in found.nodes] == [
        ("a", True, False),
        ("b", True, False),
        ("c", True, False),
        ("e", False, True),
    ]


def test_a_pod_that_would_have_no_node_is_told_with_the_reason() -> None:
    live, candidate = decided(filter_nodes), decided(filter_nodes, refusing(*NAMES))

    refused, admitted = filtered_differently(live, candidate), filtered_differently(candidate, live)

    assert (refused.result, refused.turn, refused.candidate.why_none) == (
        "refuses_more",
        "refused",
        "5 not wanted",
    )
    assert (admitted.result, admitted.turn, admitted.live.why_none) == (
        "accepts_more",
        "admitted",
        "5 not wanted",
    )


@pytest.mark.parametrize(
    ("live", "candidate", "result"),
    [
        pytest.param({"a": 100}, {"a": 100, "b": 60}, "same", id="the others do not matter"),
        pytest.param({"a": 100}, {"b": 100}, "other_node", id="another one is best"),
        pytest.param(
            {"a": 100}, {"a": 100, "b": 98}, "other_node", id="a second one that is as good on the wire"
        ),
        pytest.param(
            {"a": 100, "b": 98}, {"a": 98, "b": 100}, "same", id="what kube-scheduler cannot tell apart"
        ),
    ],
)
def test_the_best_nodes_are_compared_as_kube_scheduler_sees_them(
    live: dict[str, float], candidate: dict[str, float], result: str
) -> None:
    found = scored_differently(
        decided(score_nodes, scoring(**live)), decided(score_nodes, scoring(**candidate)), to_wire=to_wire
    )

    assert found.result == result


def test_without_scores_every_node_is_the_best() -> None:
    silent, loud = decided(score_nodes), decided(score_nodes, scoring(c=100))

    found = scored_differently(silent, loud, to_wire=to_wire)

    assert found.result == "other_node"
    assert (found.live.best, found.live.best_count) == (("a", "b", "c"), 5)
    assert (found.candidate.best, found.candidate.best_count) == (("c",), 1)
    assert found.nodes[0] == NodeDifference("a", Word(score=0), Word(score=0))
    assert scored_differently(silent, silent, to_wire=to_wire).result == "same"


def test_nothing_is_the_same_as_nothing() -> None:
    empty = make_cluster([])
    filtered = [decided(filter_nodes, policy, cluster=empty) for policy in (refusing(), refusing("a"))]
    scored = [decided(score_nodes, policy, cluster=empty) for policy in (scoring(), scoring(a=1))]

    assert filtered_differently(*filtered).result == "same"
    assert scored_differently(*scored, to_wire=to_wire).result == "same"


def test_what_becomes_of_a_pod() -> None:
    sides = [(True, True), (False, False), (True, False), (False, True)]

    assert [turn(first=a, second=b) for a, b in sides] == ["", "", "refused", "admitted"]
