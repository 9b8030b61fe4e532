"""Filter and prioritize decide where pods go, whether kube-scheduler sends names or full nodes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.e2e.extender import Extender

pytestmark = pytest.mark.e2e

BOTH_MODES = pytest.mark.parametrize(
    "names_only",
    [
        pytest.param(True, id="names only, the cluster is known"),
        pytest.param(False, id="full nodes, no cluster is known"),
    ],
)

SSD_IN_THE_EAST = """
    import bayplan

    @bayplan.filter
    def disk(pod, node):
        if node.labels.get("disk") != "ssd":
            return "no ssd"

    @bayplan.filter
    def region(pod, node):
        if node.labels.get("region") != "east":
            return "too far away, wants region east"
"""

BY_RANK = """
    import bayplan

    @bayplan.score(range=(0, 10))
    def rank(pod, node):
        return int(node.labels.get("rank", 0))
"""


def extender(cluster: ControlPlane, directory: Path, policy: str, *, names_only: bool) -> Extender:
    return Extender(cluster.api, directory, policy, kubeconfig=cluster.kubeconfig if names_only else None)


@BOTH_MODES
def test_pods_land_only_on_the_node_that_passes(
    cluster: ControlPlane, tmp_path: Path, *, names_only: bool
) -> None:
    cluster.api.create_node("spinning", labels={"region": "east"})
    cluster.api.create_node("far", labels={"disk": "ssd"})
    cluster.api.create_node("right", labels={"disk": "ssd", "region": "east"}, cpu="1")

    with (
        extender(cluster, tmp_path, SSD_IN_THE_EAST, names_only=names_only) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry()]),
    ):
        for name in ("a", "b", "c"):
            cluster.api.create_pod(name, cpu="100m")

        assert [cluster.api.wait_bound(name) for name in ("a", "b", "c")] == ["right"] * 3
        assert bayplan.requests("filter", result="ok") == 3
        assert bayplan.metric("bayplan_rejections_total", reason="no ssd", mode="decide") == 3


@BOTH_MODES
def test_the_event_counts_the_reasons_word_for_word(
    cluster: ControlPlane, tmp_path: Path, *, names_only: bool
) -> None:
    cluster.api.create_node("n1", labels={"region": "east"})
    cluster.api.create_node("n2")
    cluster.api.create_node("n3", labels={"disk": "ssd"})

    with (
        extender(cluster, tmp_path, SSD_IN_THE_EAST, names_only=names_only) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry()]),
    ):
        cluster.api.create_pod("p")

        message = cluster.api.wait_event("p", "FailedScheduling")
        said = "0/3 nodes are available: 1 too far away, wants region east, 2 no ssd."
        assert message.startswith(said)
        assert cluster.api.wait_unschedulable("p") == message
        assert cluster.api.node_of("p") is None


@BOTH_MODES
def test_the_best_score_wins_over_the_default_plugins(
    cluster: ControlPlane, tmp_path: Path, *, names_only: bool
) -> None:
    # kube-scheduler by itself would go to the empty nodes.
    cluster.api.create_node("best", labels={"rank": "10"}, cpu="4")
    cluster.api.create_node("good", labels={"rank": "7"}, cpu="16")
    cluster.api.create_node("bad", cpu="16")
    cluster.api.create_pod("neighbour", cpu="3", node_name="best")

    with (
        extender(cluster, tmp_path, BY_RANK, names_only=names_only) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry(weight=100)], verbosity=10) as scheduler,
    ):
        cluster.api.create_pod("p", cpu="1")

        assert cluster.api.wait_bound("p") == "best"
        assert scores_in(scheduler.log()) == {"best": 10, "good": 7, "bad": 0}


def scores_in(log: str) -> dict[str, int]:
    """The scores that kube-scheduler has understood, by node."""
    lines = [line for line in log.splitlines() if "Extender scored node for pod" in line]
    found = [re.search(r'node="?([^" ]+)"?.* score=(\d+)', line) for line in lines]
    return {match[1]: int(match[2]) for match in found if match}
