"""The example does what its README says."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from bayplan.config.load import load_config
from tests.controlplane.plane import ControlPlane
from tests.e2e.second_scheduler import SecondScheduler

HERE = Path(__file__).parent
NAME = "custom-scheduler"


def test_the_pod_asks_for_the_scheduler_that_is_configured() -> None:
    config, _ = load_config(HERE / "bayplan.yaml")
    pod = yaml.safe_load((HERE / "pod.yaml").read_text())

    assert [profile.scheduler_name for profile in config.scheduler.profiles] == [NAME]
    assert pod["spec"]["schedulerName"] == NAME


@pytest.mark.e2e
def test_the_pod_lands_on_the_node_with_the_most_cpu_free(cluster: ControlPlane, tmp_path: Path) -> None:
    api = cluster.api
    # By its own scores kube-scheduler would take node-1, where CPU and memory are in balance.
    api.create_node("node-1", cpu="4", memory="64Gi")
    api.create_node("node-2", cpu="6", memory="4Gi")
    api.create_node("node-3", cpu="6", memory="64Gi")
    api.create_pod("busy", cpu="4", node_name="node-3")
    api.create_pod("memory-hog", memory="3Gi", node_name="node-2")

    scheduler = SecondScheduler(
        api, tmp_path, kubeconfig=cluster.kubeconfig, flags=[f"--config={HERE / 'bayplan.yaml'}"], lease=NAME
    )
    with scheduler as bayplan:
        api.create("pods", yaml.safe_load((HERE / "pod.yaml").read_text()))
        assert api.wait_bound("web") == "node-2"
        assert api.wait_event("web", "Scheduled") == "Successfully assigned default/web to node-2"
        bayplan.child.wait_until(lambda: "pod default/web is bound to node-2, attempt 1" in bayplan.log(), 10)
        assert "lease default/custom-scheduler" in bayplan.log()

        api.delete("pods", "web")
        api.delete("leases", NAME)
