"""The example does what its README says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from bayplan import Gang, Label
from bayplan.authoring.load import load
from bayplan.config.load import load_config
from bayplan.testing import make_pod
from tests.controlplane.plane import ControlPlane
from tests.e2e.second_scheduler import SecondScheduler

HERE = Path(__file__).parent
NAME = "gang-scheduler"
JOB: dict[str, Any] = yaml.safe_load((HERE / "job.yaml").read_text())
RACKS = {"node-1": "r1", "node-2": "r1", "node-3": "r2", "node-4": "r2"}


def test_the_job_asks_for_the_scheduler_that_is_configured_and_has_as_many_pods_as_the_gang() -> None:
    config, _ = load_config(HERE / "bayplan.yaml")
    (policy,) = load(str(HERE / "gang.py"))

    gang = dict(policy.functions)["ranks"](make_pod(labels=JOB["spec"]["template"]["metadata"]["labels"]))

    assert [profile.scheduler_name for profile in config.scheduler.profiles] == [NAME]
    assert JOB["spec"]["template"]["spec"]["schedulerName"] == NAME
    assert gang == Gang("train", size=JOB["spec"]["parallelism"], within=Label("example.com/rack"))


@pytest.mark.e2e
def test_the_pods_land_in_one_rack_together_and_nowhere_while_no_rack_has_room_for_all(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    api = cluster.api
    for node, rack in RACKS.items():
        api.create_node(node, cpu="2", labels={"example.com/rack": rack})
    api.create_pod("busy-1", cpu="1", node_name="node-1")
    api.create_pod("busy-2", cpu="1", node_name="node-3")
    pods = [f"train-{rank}" for rank in range(4)]

    scheduler = SecondScheduler(
        api, tmp_path, kubeconfig=cluster.kubeconfig, flags=[f"--config={HERE / 'bayplan.yaml'}"], lease=NAME
    )
    with scheduler as bayplan:
        for pod in pods:
            template = JOB["spec"]["template"]
            metadata = {**template["metadata"], "name": pod}
            spec = {**template["spec"], "terminationGracePeriodSeconds": 0}
            api.create("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        for pod in pods[:3]:
            said = api.wait_event(pod, "FailedScheduling", containing="member train-3 does not fit")
            assert said.endswith("the best of 2: 0/2 nodes are available: 2 Insufficient cpu.")
        assert [api.node_of(pod) for pod in pods] == [None] * 4

        api.delete("pods", "busy-2")
        assert {RACKS[api.wait_bound(pod)] for pod in pods} == {"r2"}
        said = "gang default/train: 4 of 4 members have their places in r2"
        bayplan.child.wait_until(lambda: said in bayplan.log(), 10)
