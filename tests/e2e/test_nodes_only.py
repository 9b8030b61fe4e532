"""A server that follows nodes and no pods: it answers all the same, and says what it does not know."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.plane import ControlPlane
from tests.e2e.asking import why
from tests.e2e.extender import COMMAND, Extender

pytestmark = pytest.mark.e2e

ON_SSD = """
    import bayplan

    DISK = bayplan.Label("disk")
    NO_SSD = bayplan.Reason("node has no SSD")

    @bayplan.filter(reads="node")
    def on_ssd(nodes):
        return NO_SSD.where(nodes[DISK] != "ssd")
"""
NODES_ONLY = {"cluster": {"nodesOnly": True}}


def page(bayplan: Extender, path: str) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", bayplan.page_port, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", path)
        response = connection.getresponse()
        text = response.read()
    assert response.status == 200, text
    return json.loads(text) if path.startswith("/api/") else text.decode()


def bind(bayplan: Extender, pod: str, node: str) -> str:
    body = {"PodName": pod, "PodNamespace": "default", "PodUID": "some", "Node": node}
    connection = http.client.HTTPConnection("127.0.0.1", bayplan.port, timeout=10)
    with contextlib.closing(connection):
        connection.request("POST", "/bind", json.dumps(body))
        said: str = json.loads(connection.getresponse().read())["Error"]
    return said


def test_pods_go_where_the_policies_want_them(cluster: ControlPlane, tmp_path: Path) -> None:
    cluster.api.create_node("slow", labels={"disk": "hdd"})
    cluster.api.create_node("fast", labels={"disk": "ssd"})
    with (
        Extender(cluster.api, tmp_path, ON_SSD, kubeconfig=cluster.kubeconfig, config=NODES_ONLY) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry()]),
    ):
        for number in range(4):
            cluster.api.create_pod(f"early-{number}", cpu="10m")
            assert cluster.api.wait_bound(f"early-{number}") == "fast"
        cluster.api.patch("nodes", "slow", {"metadata": {"labels": {"disk": "ssd"}}})
        cluster.api.patch("nodes", "fast", {"metadata": {"labels": {"disk": "hdd"}}})
        cluster.api.create_pod("late", cpu="10m")
        assert cluster.api.wait_bound("late") == "slow"

        assert bayplan.metric("bayplan_known_answers_total", verb="filter") > 0
        told = why("late", bayplan)
        assert (told["offered"], told["passed"], told["chosen"]) == (2, 1, "")
        assert told["podsFollowed"] is False
        state = page(bayplan, "/api/state")
        assert state["view"]["pods"] is None
        assert "ledger" not in state
        assert bayplan.metric("bayplan_writer") == 0
        assert "Pods are not followed here (cluster.nodesOnly)" in page(bayplan, "/cluster")
        command = [str(COMMAND), "state", "verify", f"--server=http://127.0.0.1:{bayplan.ops_port}"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert "ok: the view is true; 2 nodes, pods are not followed" in ended.stdout
        assert "without cluster.nodesOnly, or drop bindVerb" in bind(bayplan, "late", "slow")
        assert "its nodes alone, no pods" in bayplan.log()
        assert "serving filter, prioritize, preempt at" in bayplan.log()


def test_nobody_is_evicted_for_a_node_that_is_refused(cluster: ControlPlane, tmp_path: Path) -> None:
    """kube-scheduler would rather evict from the slow one: the priority there is lower."""
    cluster.api.create_priority_class("urgent", 1000)
    for value, (node, disk) in enumerate({"slow": "hdd", "fast": "ssd"}.items(), start=1):
        cluster.api.create_priority_class(f"on-{node}", value)
        cluster.api.create_node(node, cpu="1", labels={"disk": disk})
        cluster.api.create_pod(f"victim-{node}", cpu="1", node_name=node, priority_class=f"on-{node}")
        cluster.api.set_phase(f"victim-{node}", "Running")
    with (
        Extender(cluster.api, tmp_path, ON_SSD, kubeconfig=cluster.kubeconfig, config=NODES_ONLY) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry()]),
    ):
        cluster.api.create_pod("urgent", cpu="1", priority_class="urgent")

        assert cluster.api.wait_bound("urgent") == "fast"
        assert cluster.api.find("pods", "victim-slow") is not None
        assert bayplan.requests("preempt", result="ok") >= 1
        assert "dropped node slow: node has no SSD" in bayplan.log()
