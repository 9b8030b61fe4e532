"""The testing kit asks about pods that would come into the queue."""

import pytest

import bayplan
from bayplan import Pod, PolicyError, Snapshot
from bayplan.testing import make_cluster, make_node, make_pod, queue_up


@bayplan.policy
class TeamsInTurn:
    """Pods of teams alone, by their team."""

    @bayplan.gate
    def has_team(self, pod: Pod, cluster: Snapshot) -> str | None:
        return None if "team" in pod.labels and len(cluster.nodes) else "no team, or no node"

    @bayplan.order
    def by_team(self, pod: Pod) -> str | None:
        if pod.labels["team"] == "broken":
            raise RuntimeError("oops")
        return pod.labels["team"] or None


def test_who_is_let_in_stands_in_the_order_of_the_policy_and_the_others_have_a_reason() -> None:
    pods = [
        make_pod("b", labels={"team": "b"}),
        make_pod("nobody"),
        make_pod("a", labels={"team": "a"}),
        make_pod("by-priority", labels={"team": ""}),
    ]

    queued = queue_up(TeamsInTurn, pods, make_cluster([make_node("n1")]))

    assert queued.order == ["by-priority", "a", "b"]
    assert queued.held == {"nobody": "no team, or no node"}


def test_without_a_cluster_there_are_no_nodes() -> None:
    assert queue_up(TeamsInTurn, [make_pod("a", labels={"team": "a"})]).order == []


def test_a_hook_that_fails_is_not_overlooked() -> None:
    pods = [make_pod("p", labels={"team": "broken"})]

    with pytest.raises(PolicyError, match=r"test_queue\.py:\d+ by_team: RuntimeError: oops"):
        queue_up(TeamsInTurn, pods, make_cluster([make_node("n1")]))


def test_an_order_of_no_parts_comes_first_as_in_the_scheduler() -> None:
    @bayplan.order
    def emptiest(pod: bayplan.Pod) -> tuple[int, ...]:
        return () if pod.name == "nothing" else (-1,)

    assert queue_up(emptiest, [make_pod("something"), make_pod("nothing")]).order == ["nothing", "something"]
