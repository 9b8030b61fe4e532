"""``bayplan why`` says what kube-scheduler says: its counts, its choice, and what it never asked about."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.asking import DISKS_AND_REGIONS, in_event, in_why, refused, run, why
from tests.e2e.extender import COMMAND, Extender

pytestmark = pytest.mark.e2e


@pytest.fixture
def bayplan(cluster: ControlPlane, tmp_path: Path) -> Extender:
    return Extender(cluster.api, tmp_path, DISKS_AND_REGIONS, kubeconfig=cluster.kubeconfig)


def test_the_counts_of_a_waiting_pod_are_those_of_its_event(cluster: ControlPlane, bayplan: Extender) -> None:
    cluster.api.create_node("near", labels={"region": "east"})
    cluster.api.create_node("bare")
    cluster.api.create_node("far", labels={"disk": "ssd"})

    with bayplan, cluster.scheduler(extenders=[bayplan.entry()]):
        cluster.api.create_pod("p")
        message = cluster.api.wait_event("p", "FailedScheduling")
        said = why("pod/p", bayplan)

        assert in_why(said) == in_event(message) == {"no ssd": 2, "too far away, wants region east": 1}
        assert message.startswith(said["event"])
        assert [(group["policy"], sorted(group["nodes"])) for group in said["refused"]] == [
            ("Disks", ["bare", "near"]),
            ("Regions", ["far"]),
        ]
        assert (said["offered"], said["passed"], said["neverOffered"], said["chosen"]) == (3, 0, 0, "")
        assert said["uid"] == cluster.api.get("pods", "p")["metadata"]["uid"]
        table = run("pod/p", bayplan)
        assert said["event"] in table
        assert "to pass: the node itself would have to change: its labels, its size" in table


def test_the_node_of_a_placed_pod_is_the_one_that_kube_scheduler_chose(
    cluster: ControlPlane, bayplan: Extender
) -> None:
    ssd = {"disk": "ssd", "region": "east"}
    cluster.api.create_node("best", labels={**ssd, "rank": "10"})
    cluster.api.create_node("worse", labels={**ssd, "rank": "4"})
    cluster.api.create_node("bare")

    with bayplan, cluster.scheduler(extenders=[bayplan.entry(weight=20)]):
        cluster.api.create_pod("p")
        chosen = cluster.api.wait_bound("p")
        said = wait_until(
            lambda: found if (found := why("p", bayplan, flags=("--weight=20",)))["chosen"] else None,
            30,
            what="the server sees the binding",
        )

        assert said["chosen"] == chosen == "best"
        assert [(node["node"], node["wire"], node["points"]) for node in said["ranking"]] == [
            ("best", 10, 2000),
            ("worse", 4, 800),
        ]
        assert in_why(said) == {"no ssd": 1}
        assert "kube-scheduler chose best: our best." in run("p", bayplan, flags=("--weight=20",))


def test_a_choice_that_is_not_our_best_is_explained(cluster: ControlPlane, bayplan: Extender) -> None:
    ssd = {"disk": "ssd", "region": "east"}
    taint = {"key": "costly", "value": "yes", "effect": "PreferNoSchedule"}
    cluster.api.create_node("ours", labels={**ssd, "rank": "5"}, taints=[taint])
    cluster.api.create_node("theirs", labels={**ssd, "rank": "0"})

    with bayplan, cluster.scheduler(extenders=[bayplan.entry()]):
        cluster.api.create_pod("p")
        assert cluster.api.wait_bound("p") == "theirs"
        wait_until(lambda: why("p", bayplan)["chosen"], 30, what="the server sees the binding")

        words = " ".join(run("p", bayplan).split())
        assert "kube-scheduler chose theirs, our number 2. Our best, ours, has 50 points more" in words


def test_what_kube_schedulers_own_plugins_refuse_was_never_offered(
    cluster: ControlPlane, bayplan: Extender
) -> None:
    cluster.api.create_node("near", labels={"region": "east"})
    cluster.api.create_node("cordoned", unschedulable=True)
    cluster.api.create_node("tainted", taints=[{"key": "x", "value": "y", "effect": "NoSchedule"}])

    with bayplan, cluster.scheduler(extenders=[bayplan.entry()]):
        cluster.api.create_pod("p")
        counts = in_event(cluster.api.wait_event("p", "FailedScheduling"))
        said = why("p", bayplan)

        assert (said["offered"], said["passed"], said["neverOffered"]) == (1, 0, 2)
        assert said["neverOfferedNodes"] == ["cordoned", "tainted"]
        assert in_why(said) == {"no ssd": 1}
        assert counts["no ssd"] == 1
        assert sum(counts.values()) - counts["no ssd"] == said["neverOffered"]


def test_of_two_replicas_the_one_that_was_asked_last_answers(cluster: ControlPlane, tmp_path: Path) -> None:
    cluster.api.create_node("bare")

    def replica(name: str) -> Extender:
        return Extender(cluster.api, tmp_path, DISKS_AND_REGIONS, name=name, kubeconfig=cluster.kubeconfig)

    with replica("first") as first, replica("second") as second:
        with cluster.scheduler(extenders=[first.entry()]):
            cluster.api.create_pod("p")
            cluster.api.wait_event("p", "FailedScheduling")
        said = why("p", first, second)
        assert said["server"] == f"http://127.0.0.1:{first.page_port}"
        problems = {other["server"]: other["problem"] for other in said["others"]}
        assert problems == {f"http://127.0.0.1:{second.page_port}": "knows nothing about the pod"}

        with cluster.scheduler(extenders=[second.entry()]):
            wait_until(lambda: second.requests("filter") or None, 60, what="the second one is asked")
            said = why("p", first, second)
        assert said["server"] == f"http://127.0.0.1:{second.page_port}"
        assert [other["problem"].partition(":")[0] for other in said["others"]] == ["older"]

    # Both are gone now.
    urls = [f"--server=http://127.0.0.1:{each.page_port}" for each in (first, second)]
    assert refused("p", *urls).count("no answer") == 2


def test_a_manifest_is_tried_on_the_live_cluster(cluster: ControlPlane, tmp_path: Path) -> None:
    cluster.api.create_node("bare")
    cluster.api.create_node("right", labels={"disk": "ssd", "region": "east"})
    (tmp_path / "rules.py").write_text(DISKS_AND_REGIONS.replace("\n    ", "\n"))
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main"}]}}
    deployment = {"kind": "Deployment", "metadata": {"name": "web"}, "spec": {"template": template}}
    (tmp_path / "web.yaml").write_text(json.dumps(deployment))
    arguments = ["-f", f"{tmp_path}/web.yaml", f"{tmp_path}/rules.py", f"--kubeconfig={cluster.kubeconfig}"]

    ended = subprocess.run(
        [COMMAND, "why", *arguments, "-o", "json"], capture_output=True, text=True, check=False
    )

    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout)
    assert (said["pod"], said["offered"], said["chosen"]) == ("default/web", 2, "right")
    assert cluster.api.items("pods") == []
