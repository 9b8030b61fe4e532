"""LeastAllocated on the real kube-scheduler: over the resources that were asked for, not the default ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.e2e.extender import Extender

pytestmark = pytest.mark.e2e

CONFIG = {
    "policies": [
        {"use": "LeastAllocated", "args": {"resources": [{"name": "memory", "weight": 9}, {"name": "cpu"}]}}
    ]
}


def test_memory_decides_where_memory_has_the_weight(cluster: ControlPlane, tmp_path: Path) -> None:
    api = cluster.api
    api.create_node("memory-free", cpu="10", memory="10Gi")
    api.create_node("cpu-free", cpu="10", memory="10Gi")
    # 20 % and 100 % are free on the one, 100 % and 40 % on the other: kube-scheduler prefers cpu-free.
    api.create_pod("cpu-hog", cpu="8", node_name="memory-free")
    api.create_pod("memory-hog", memory="6Gi", node_name="cpu-free")

    extender = Extender(api, tmp_path, "", kubeconfig=cluster.kubeconfig, config=CONFIG)
    with extender as bayplan, cluster.scheduler(extenders=[bayplan.entry(weight=50)]):
        api.create_pod("new", cpu="100m", memory="100Mi")

        assert api.wait_bound("new") == "memory-free"
