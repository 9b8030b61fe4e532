"""With ``managedResources``, only pods that ask for one of them reach us."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.e2e.extender import Extender

pytestmark = pytest.mark.e2e

ONLY_ON_LEFT = """
    import bayplan

    @bayplan.filter
    def left(pod, node):
        return "not on the left" if node.name != "left" else None
"""


def test_only_pods_that_ask_for_the_resource_reach_us(cluster: ControlPlane, tmp_path: Path) -> None:
    cluster.api.create_node("left", cpu="1", extended={"example.com/x": "4"})
    cluster.api.create_node("right", cpu="8", extended={"example.com/x": "4"})

    with (
        Extender(cluster.api, tmp_path, ONLY_ON_LEFT, kubeconfig=cluster.kubeconfig) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry(bind=True, managed=["example.com/x"])]),
    ):
        # Too large for the left node: whoever asked us would be refused.
        cluster.api.create_pod("plain", cpu="2")
        assert cluster.api.wait_bound("plain") == "right"
        cluster.api.wait_event("plain", "Scheduled")
        assert bayplan.requests("filter") + bayplan.requests("bind") == 0

        cluster.api.create_pod("ours", cpu="100m", requests={"example.com/x": "1"})
        assert cluster.api.wait_bound("ours") == "left"
        cluster.api.wait_event("ours", "Scheduled")
        assert bayplan.requests("filter") == 1
        assert bayplan.requests("bind") == 1
