"""MostAvailableCPU on the real kube-scheduler: it outweighs the default scores, and keeps the headroom."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.e2e.extender import Extender

pytestmark = pytest.mark.e2e

CONFIG = {"policies": [{"use": "MostAvailableCPU", "args": {"headroomMilli": 1000}}]}


def test_the_node_with_the_most_free_cpu_wins_until_only_the_headroom_is_left(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    api = cluster.api
    api.create_node("cpu-free", cpu="4", memory="10Gi")
    api.create_node("memory-free", cpu="4", memory="10Gi")
    # kube-scheduler itself, which looks at both, prefers memory-free.
    api.create_pod("memory-hog", memory="9Gi", node_name="cpu-free")
    api.create_pod("cpu-hog", cpu="2", node_name="memory-free")

    extender = Extender(api, tmp_path, "", kubeconfig=cluster.kubeconfig, config=CONFIG)
    with extender as bayplan, cluster.scheduler(extenders=[bayplan.entry(bind=True, weight=50)]):
        api.create_pod("first", cpu="1", memory="100Mi")
        assert api.wait_bound("first") == "cpu-free"

        api.create_pod("large", cpu="2500m")
        api.wait_event("large", "FailedScheduling", containing="1 too little CPU")
        api.create_pod("small", cpu="1")
        api.wait_bound("small")
