"""The journal on disk of a server that was killed says what kube-scheduler said."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.asking import DISKS_AND_REGIONS, in_event, in_why
from tests.e2e.extender import COMMAND, Extender

pytestmark = pytest.mark.e2e


def why(pod: str, journal: Path, *flags: str) -> str:
    command = [str(COMMAND), "why", pod, f"--journal={journal}", *flags]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def told(pod: str, journal: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(why(pod, journal, "-o", "json"))
    return found


def test_where_kube_scheduler_bound_a_pod_itself_is_in_the_journal(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    journal = tmp_path / "journal.jsonl"
    for name, rank in (("best", "10"), ("worse", "4")):
        cluster.api.create_node(name, labels={"disk": "ssd", "region": "east", "rank": rank})
    flags = [f"--journal-file={journal}"]
    server = Extender(cluster.api, tmp_path, DISKS_AND_REGIONS, kubeconfig=cluster.kubeconfig, flags=flags)

    with server, cluster.scheduler(extenders=[server.entry(weight=20)]):
        cluster.api.create_pod("placed")
        chosen = cluster.api.wait_bound("placed")
        wait_until(lambda: b'"line":"placed"' in journal.read_bytes(), 30, what="the pod is seen")

    assert told("placed", journal)["chosen"] == chosen == "best"


def test_a_killed_servers_journal_has_the_counts_of_the_event_and_the_choice(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    api, journal = cluster.api, tmp_path / "journal.jsonl"
    ssd = {"disk": "ssd", "region": "east"}
    api.create_node("best", labels={**ssd, "rank": "10"}, cpu="1")
    api.create_node("worse", labels={**ssd, "rank": "4"}, cpu="1")
    api.create_node("bare")
    api.create_node("far", labels={"disk": "ssd"})
    api.create_node("cordoned", unschedulable=True)
    flags = [f"--journal-file={journal}"]
    server = Extender(api, tmp_path, DISKS_AND_REGIONS, kubeconfig=cluster.kubeconfig, flags=flags)

    with server, cluster.scheduler(extenders=[server.entry(bind=True, weight=20)]):
        api.create_pod("placed", cpu="100m")
        assert api.wait_bound("placed") == "best"
        # No room for it but where a policy says no.
        api.create_pod("waits", cpu="2")
        message = api.wait_event("waits", "FailedScheduling")
        server.wait_metric(4, "bayplan_journal_lines_total", result="written")
        server.kill()

    waits, placed = told("waits", journal), told("placed", journal)

    counts = in_event(message)
    assert in_why(waits) == {text: counts[text] for text in in_why(waits)}
    assert in_why(waits) == {"no ssd": 1, "too far away, wants region east": 1}
    assert (waits["offered"], waits["passed"], waits["neverOffered"], waits["chosen"]) == (2, 0, 3, "")
    assert waits["uid"] == api.get("pods", "waits")["metadata"]["uid"]
    assert (placed["chosen"], placed["offered"], placed["passed"]) == ("best", 4, 2)
    assert [(node["node"], node["wire"]) for node in placed["ranking"]] == [("best", 10), ("worse", 4)]
    assert in_why(placed) == {"no ssd": 1, "too far away, wants region east": 1}
    assert waits["warnings"] == placed["warnings"] == []
    assert "kube-scheduler chose best: our best." in why("placed", journal, "--weight=20")
