"""BalancedAllocation on the real kube-scheduler: a pod goes where it makes use even."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.e2e.extender import Extender

pytestmark = pytest.mark.e2e

CONFIG = {"policies": [{"use": "BalancedAllocation"}]}


def test_a_pod_with_much_cpu_goes_where_memory_is_used(cluster: ControlPlane, tmp_path: Path) -> None:
    api = cluster.api
    api.create_node("memory-used", cpu="10", memory="10Gi")
    api.create_node("empty", cpu="10", memory="10Gi")
    # With the pod: 80 % and 80 % here, 50 % and 0 % there. kube-scheduler prefers the empty node.
    api.create_pod("there", cpu="3", memory="8Gi", node_name="memory-used")

    extender = Extender(api, tmp_path, "", kubeconfig=cluster.kubeconfig, config=CONFIG)
    with extender as bayplan, cluster.scheduler(extenders=[bayplan.entry(weight=50)]):
        api.create_pod("new", cpu="5")

        assert api.wait_bound("new") == "memory-used"
