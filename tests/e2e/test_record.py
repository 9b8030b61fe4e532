"""A recording of a real kube-scheduler's questions: replayed byte for byte, then asked of other weights."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.extender import Extender, Json

pytestmark = pytest.mark.e2e

BAYPLAN = Path(sys.executable).parent / "bayplan"
PODS = 500 if "BAYPLAN_CHAOS" in os.environ else 100
NODES = 10

POLICY = """
    import bayplan

    ODD = bayplan.Reason("odd nodes are for others")
    CROWD = bayplan.Reason("the team is there already")
    TEAM = bayplan.PodLabel("team")


    @bayplan.policy
    class Even:
        @bayplan.filter
        def even(self, pod, node):
            if int(node.name[1:]) % 2 and pod.labels.get("team") == "even":
                return ODD

        @bayplan.score
        def early(self, pod, nodes):
            return [-int(name[1:]) for name in nodes.names]


    @bayplan.policy
    class Apart:
        @bayplan.filter(recheck=True)
        def apart(self, pod, nodes):
            return CROWD.where(nodes.count(TEAM.same_as(pod)) >= 100)

        @bayplan.score
        def free(self, pod, nodes):
            return nodes["cpu.free"]
"""


def policies(*, early: float) -> list[Json]:
    return [{"use": "policy.py:Even", "weight": early}, {"use": "policy.py:Apart"}]


def bayplan(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(BAYPLAN), *(str(argument) for argument in arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("names_only", [pytest.param(True, id="names"), pytest.param(False, id="full nodes")])
def test_real_decisions_are_replayed_byte_for_byte_and_compared(
    cluster: ControlPlane, tmp_path: Path, names_only: bool
) -> None:
    api = cluster.api
    for number in range(NODES):
        api.create_node(f"n{number}", cpu="32", pods=500)
    folder = tmp_path / "policy"
    recording = folder / "recording.jsonl.gz"
    config: Json = {"policies": policies(early=1), "record": {"file": recording.name}}
    server = Extender(api, tmp_path, POLICY, kubeconfig=cluster.kubeconfig, config=config)
    entry = {**server.entry(bind=True), "nodeCacheCapable": names_only}
    with server, cluster.scheduler(extenders=[entry]):
        for number in range(PODS):
            api.create_pod(
                f"p{number}", cpu="10m", labels={"team": "even" if number % 2 else f"t{number % 7}"}
            )
        wait_until(lambda: bound(cluster) >= PODS, 120, what="every pod is bound")

    replayed = bayplan("replay", recording, "-o", "json")
    found = json.loads(replayed.stdout)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert found["differences"] == []
    assert found["warnings"] == []
    assert min(found["equal"][verb] for verb in ("filter", "prioritize", "commit")) >= PODS

    other = folder / "other.yaml"
    document = yaml.safe_load((folder / "bayplan.yaml").read_text())
    other.write_text(yaml.safe_dump({**document, "policies": policies(early=20)}))
    compared = bayplan("compare", recording, "-c", other, "--html", tmp_path / "report.html", "-o", "json")
    changes: dict[str, Any] = json.loads(compared.stdout)
    assert changes["pods"] >= PODS
    assert changes["changes"].get("elsewhere", 0) > 0
    assert "<svg" in (tmp_path / "report.html").read_text()
    assert bayplan("replay", recording, "--config", other).returncode == 1

    exported = bayplan("export-test", recording, "--pod", "default/p1", "--out", tmp_path / "cases")
    assert exported.returncode == 0, exported.stderr
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path / "cases")]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert "1 passed" in ran.stdout, ran.stdout
    print(f"\n{found['total']} decisions, {recording.stat().st_size} bytes, {changes['changes']}")


def bound(cluster: ControlPlane) -> int:
    """How many pods have a node."""
    return sum(1 for pod in cluster.api.items("pods") if pod["spec"].get("nodeName"))
