"""``--observe`` changes nothing, and says what would have been."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.e2e.extender import Extender

pytestmark = pytest.mark.e2e

CLOSED = """
    import bayplan

    @bayplan.filter
    def closed(pod, node):
        return "closed for today"

    @bayplan.score
    def small_ones(pod, node):
        return 1 if node.name == "small" else 0
"""


def test_what_would_have_been_refused_is_scheduled_and_counted(cluster: ControlPlane, tmp_path: Path) -> None:
    # kube-scheduler by itself goes to the large node; our scores, if they counted, to the small one.
    cluster.api.create_node("large", cpu="64")
    cluster.api.create_node("small", cpu="2")
    cluster.api.create_pod("neighbour", cpu="1", node_name="small")

    with (
        Extender(
            cluster.api, tmp_path, CLOSED, kubeconfig=cluster.kubeconfig, flags=["--observe"]
        ) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry(weight=100)]),
    ):
        for name in ("a", "b", "c"):
            cluster.api.create_pod(name, cpu="100m")

        assert [cluster.api.wait_bound(name) for name in ("a", "b", "c")] == ["large"] * 3
        sample, reason = "bayplan_rejections_total", "closed for today"
        assert bayplan.metric(sample, policy="policy", reason=reason, mode="observe") == 6
        assert bayplan.metric(sample, mode="decide") == 0
        said = "observe: filter default/a: would refuse 2 of 2 nodes (2 closed for today)"
        assert said in bayplan.log()
        assert "observe: prioritize default/a: would prefer small (100 of 100)" in bayplan.log()
        assert bayplan.requests("filter", result="ok") == 3


def test_evictions_that_would_have_been_prevented_happen_and_are_logged(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    cluster.api.create_priority_class("urgent", 1000)
    cluster.api.create_node("n1", cpu="1")
    cluster.api.create_pod("victim", cpu="1", node_name="n1")

    with (
        Extender(
            cluster.api, tmp_path, CLOSED, kubeconfig=cluster.kubeconfig, flags=["--observe"]
        ) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry()]),
    ):
        cluster.api.create_pod("p", cpu="1", priority_class="urgent")

        assert cluster.api.wait_bound("p") == "n1"
        assert "preempt default/p: would drop node n1: closed for today" in bayplan.log()
