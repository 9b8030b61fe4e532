"""While we are down: an ignorable extender is left out, any other one holds its pods back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.e2e.extender import Extender

pytestmark = pytest.mark.e2e

NOT_ON_LARGE = """
    import bayplan

    @bayplan.filter
    def small(pod, node):
        return "too large" if node.name == "large" else None
"""


@pytest.fixture
def bayplan(cluster: ControlPlane, tmp_path: Path) -> Extender:
    """A server that is down, and allows only the node that kube-scheduler would not choose."""
    cluster.api.create_node("large", cpu="64")
    cluster.api.create_node("small", cpu="2")
    cluster.api.create_pod("neighbour", cpu="1", node_name="small")
    return Extender(cluster.api, tmp_path, NOT_ON_LARGE, kubeconfig=cluster.kubeconfig)


def test_an_ignorable_extender_is_left_out_while_it_is_down(cluster: ControlPlane, bayplan: Extender) -> None:
    with cluster.scheduler(extenders=[bayplan.entry(ignorable=True)]):
        cluster.api.create_pod("before", cpu="100m")
        assert cluster.api.wait_bound("before") == "large"

        with bayplan:
            cluster.api.create_pod("meanwhile", cpu="100m")
            assert cluster.api.wait_bound("meanwhile") == "small"

        cluster.api.create_pod("after", cpu="100m")
        assert cluster.api.wait_bound("after") == "large"

        with bayplan:
            cluster.api.create_pod("again", cpu="100m")
            assert cluster.api.wait_bound("again") == "small"


def test_any_other_extender_holds_pods_back_until_it_is_up(cluster: ControlPlane, bayplan: Extender) -> None:
    with cluster.scheduler(extenders=[bayplan.entry()]):
        cluster.api.create_pod("p", cpu="100m")
        said = cluster.api.wait_unschedulable("p", reason="SchedulerError")
        assert "connection refused" in said
        assert cluster.api.node_of("p") is None

        with bayplan:
            assert cluster.api.wait_bound("p") == "small"
