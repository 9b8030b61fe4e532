"""MostAllocated on the real kube-scheduler: pods fill one node before they touch the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.e2e.extender import Extender

pytestmark = pytest.mark.e2e

CONFIG = {"policies": [{"use": "MostAllocated"}]}


def test_pods_fill_the_node_that_is_in_use_and_leave_the_others_empty(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    api = cluster.api
    for name in ("empty-1", "in-use", "empty-2"):
        api.create_node(name, cpu="10", memory="10Gi")
    api.create_pod("there", cpu="2", memory="2Gi", node_name="in-use")

    extender = Extender(api, tmp_path, "", kubeconfig=cluster.kubeconfig, config=CONFIG)
    with extender as bayplan, cluster.scheduler(extenders=[bayplan.entry(weight=50)]):
        for number in range(8):
            api.create_pod(f"p{number}", cpu="1", memory="1Gi")

        assert {api.wait_bound(f"p{number}") for number in range(8)} == {"in-use"}
