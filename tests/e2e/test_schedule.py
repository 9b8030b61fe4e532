"""``bayplan schedule`` on a real API server: it places pods as kube-scheduler would, in the same words."""

from __future__ import annotations

import re
import subprocess
import threading
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from tests.controlplane.client import Client, Json
from tests.controlplane.manifests import pod_manifest
from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.asking import why
from tests.e2e.extender import COMMAND
from tests.e2e.second_scheduler import NAME, SecondScheduler

pytestmark = pytest.mark.e2e

MANY_SECONDS = 60.0


def test_two_hundred_pods_are_bound_and_no_node_is_over_its_size(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    for number in range(10):
        cluster.api.create_node(f"n{number}", cpu="4", pods=25)
    create_pods(cluster, 200, cpu="200m")

    with SecondScheduler(cluster.api, tmp_path, kubeconfig=cluster.kubeconfig) as bayplan:
        wait_bound(cluster, 200)
        check_sizes(cluster, cpu_milli=4000, pods=25)
        wait_until(lambda: count_events(cluster, "Scheduled") == 200, 30, what="each pod has its event")
        said = cluster.api.wait_event("p0", "Scheduled")
        assert said == f"Successfully assigned default/p0 to {cluster.api.node_of('p0')}"
        assert bayplan.metric("bayplan_schedule_attempts_total", result="scheduled", profile=NAME) == 200
        assert bayplan.metric("bayplan_pod_scheduling_sli_duration_seconds_count") == 200
        assert bayplan.metric("bayplan_pending_pods") == 0
        assert cluster.api.get("leases", NAME)["spec"]["holderIdentity"]
        command = [str(COMMAND), "state", "verify", f"--server=http://127.0.0.1:{bayplan.ops_port}"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert "ok: the view is true; 10 nodes, 200 pods" in ended.stdout, ended.stdout + ended.stderr
    assert cluster.api.get("leases", NAME)["spec"]["holderIdentity"] == "", "it was given back"


def test_what_fits_nowhere_is_told_in_kube_schedulers_words_and_placed_once_a_node_comes(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    api = cluster.api
    api.create_node("small", cpu="1")
    api.create_node("cordoned", cpu="8", unschedulable=True)
    api.create_node("tainted", cpu="8", taints=[{"key": "team", "value": "a", "effect": "NoSchedule"}])
    api.create_node("other-disk", cpu="8", labels={"disk": "hdd"})

    with SecondScheduler(api, tmp_path, kubeconfig=cluster.kubeconfig), cluster.scheduler():
        for name, scheduler in (("ours", NAME), ("theirs", "default-scheduler")):
            spec = {"affinity": node_affinity("disk", "NotIn", "hdd")}
            api.create_pod(name, cpu="2", scheduler_name=scheduler, spec=spec)
        theirs = api.wait_event("theirs", "FailedScheduling")
        assert api.wait_event("ours", "FailedScheduling") == theirs
        assert api.wait_unschedulable("ours") == api.wait_unschedulable("theirs") == theirs
        told = [api.get("pods", name)["status"]["conditions"] for name in ("ours", "theirs")]
        for (condition,) in told:
            assert condition.pop("lastTransitionTime")
        assert told[0] == told[1]
        assert told[0][0]["observedGeneration"] == 1

        api.create_node("large", cpu="8")
        assert api.wait_bound("ours") == "large"


def test_a_gated_pod_waits_until_its_gates_are_gone(cluster: ControlPlane, tmp_path: Path) -> None:
    api = cluster.api
    api.create_node("n1")
    with SecondScheduler(api, tmp_path, kubeconfig=cluster.kubeconfig) as bayplan:
        api.create_pod("gated", scheduler_name=NAME, scheduling_gates=["example.com/quota"])
        api.create_pod("free", scheduler_name=NAME)
        api.wait_bound("free")
        assert bayplan.metric("bayplan_pending_pods", queue="gated") == 1
        assert api.node_of("gated") is None

        api.patch("pods", "gated", {"spec": {"schedulingGates": None}})
        assert api.wait_bound("gated") == "n1"


def test_a_more_important_pod_evicts_the_least_and_lands_in_its_place(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    api = cluster.api
    for name, value in (("low", 10), ("middle", 100), ("high", 1000)):
        api.create_priority_class(name, value)
    for node in ("cheap", "dear"):
        api.create_node(node, cpu="4")
    api.create_pod("small-low", cpu="1", priority_class="low", node_name="cheap")
    api.create_pod("large-low", cpu="3", priority_class="low", node_name="cheap")
    api.create_pod("middle", cpu="4", priority_class="middle", node_name="dear")

    with SecondScheduler(api, tmp_path, kubeconfig=cluster.kubeconfig) as bayplan:
        api.create_pod("urgent", cpu="3", priority_class="high", scheduler_name=NAME)
        api.wait_gone("large-low")
        assert api.wait_bound("urgent") == "cheap"
        assert api.node_of("small-low") == "cheap"
        assert api.node_of("middle") == "dear"
        urgent = api.get("pods", "urgent")
        said = api.wait_event("large-low", "Preempted")
        assert said == f"Preempted by pod {urgent['metadata']['uid']} on node cheap"
        assert api.wait_event("urgent", "FailedScheduling").startswith(
            "0/2 nodes are available: 2 Insufficient cpu."
        )
        assert bayplan.metric("bayplan_preemption_victims_count") == 1
        assert bayplan.metric("bayplan_preemption_victims_sum") == 1


def test_while_victims_end_the_room_is_kept_and_nobody_else_is_evicted(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    api = cluster.api
    api.create_priority_class("low", 10)
    api.create_priority_class("high", 1000)
    for node in ("first", "second"):
        api.create_node(node, cpu="4")
        slow = {"terminationGracePeriodSeconds": 600}
        api.create_pod(f"on-{node}", cpu="4", priority_class="low", node_name=node, spec=slow)
        api.set_phase(f"on-{node}", "Running")

    with SecondScheduler(api, tmp_path, kubeconfig=cluster.kubeconfig) as bayplan:
        api.create_pod("urgent", cpu="4", priority_class="high", scheduler_name=NAME)
        node = wait_until(lambda: nominated(cluster, "urgent"), 30, what="a node is kept for the pod")
        other = {"first": "second", "second": "first"}[node]
        victim = wait_until(lambda: ending(cluster, f"on-{node}"), 30, what="its victim ends")
        (target,) = [c for c in victim["status"]["conditions"] if c["type"] == "DisruptionTarget"]
        assert (target["reason"], target["observedGeneration"]) == ("PreemptionByScheduler", 1)

        # Another attempt while the victim still ends, and one of a pod that must not take the room.
        api.create_node("tiny", cpu="100m")
        api.wait_event("urgent", "FailedScheduling", containing="terminating pod on the nominated node")
        assert "deletionTimestamp" not in api.get("pods", f"on-{other}")["metadata"]
        api.create_pod("late", cpu="1", scheduler_name=NAME)
        api.wait_event("late", "FailedScheduling")
        path = f"/api/v1/namespaces/default/pods/on-{node}"
        api.request("DELETE", path, body={"gracePeriodSeconds": 0})
        assert api.wait_bound("urgent") == node
        assert api.node_of("late") is None
        assert bayplan.metric("bayplan_preemption_victims_sum") == 1


def test_side_by_side_with_kube_scheduler_no_node_gets_more_than_it_has(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    for number in range(10):
        cluster.api.create_node(f"n{number}", cpu="4")
    with SecondScheduler(cluster.api, tmp_path, kubeconfig=cluster.kubeconfig), cluster.scheduler():
        streams = [
            threading.Thread(target=create_pods, args=(cluster, 150), kwargs=kwargs)
            for kwargs in (
                {"cpu": "100m", "prefix": "ours"},
                {"cpu": "100m", "prefix": "theirs", "scheduler": "default-scheduler"},
            )
        ]
        for stream in streams:
            stream.start()
        for stream in streams:
            stream.join()
        wait_bound(cluster, 300)
        check_sizes(cluster, cpu_milli=4000, pods=110)
        by = [pod["spec"]["schedulerName"] for pod in cluster.api.items("pods")]
        assert by.count(NAME) == by.count("default-scheduler") == 150


def test_why_and_the_page_tell_of_its_decisions(cluster: ControlPlane, tmp_path: Path) -> None:
    api = cluster.api
    api.create_node("empty", cpu="4")
    api.create_node("busy", cpu="4")
    api.create_pod("there", cpu="3", node_name="busy")

    journal = tmp_path / "journal.jsonl"
    flags = [f"--journal-file={journal}"]
    with SecondScheduler(api, tmp_path, kubeconfig=cluster.kubeconfig, flags=flags) as bayplan:
        api.create_pod("placed", cpu="1", scheduler_name=NAME)
        api.create_pod("large", cpu="8", scheduler_name=NAME)
        assert api.wait_bound("placed") == "empty"
        message = api.wait_event("large", "FailedScheduling")
        page = f"http://127.0.0.1:{bayplan.page_port}"

        placed, large = why("pod/placed", page), why("pod/large", page)

    assert (placed["chosen"], placed["offered"], placed["neverOffered"]) == ("empty", 2, 0)
    assert placed["ranking"][0]["node"] == "empty"
    told = why("pod/placed", flags=(f"--journal={journal}",))
    assert told["chosen"] == "empty"
    assert placed["schedules"], "nobody else had a say"
    assert told["schedules"]
    assert message.startswith(large["event"])
    assert [(group["policy"], group["count"]) for group in large["refused"]] == [("NodeResourcesFit", 2)]


def test_the_rights_in_the_docs_are_enough(cluster: ControlPlane, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "schedule.md").read_text()
    (role,) = [text for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "ClusterRole" in text]
    kubeconfig = cluster.kubeconfig_for("scheduler", yaml.safe_load(role)["rules"])
    api = cluster.api
    api.create_priority_class("low", 10)
    api.create_priority_class("high", 1000)
    api.create_node("n1", cpu="4")
    api.create_pod("victim", cpu="4", priority_class="low", node_name="n1")

    with SecondScheduler(api, tmp_path, kubeconfig=kubeconfig) as bayplan:
        api.create_pod("urgent", cpu="4", priority_class="high", scheduler_name=NAME)
        assert api.wait_bound("urgent") == "n1"
        for pod, reason in (("urgent", "FailedScheduling"), ("urgent", "Scheduled"), ("victim", "Preempted")):
            api.wait_event(pod, reason)
        assert bayplan.metric("bayplan_schedule_reports_total", result="failed") == 0
    assert "forbidden" not in bayplan.log()


def create_pods(
    cluster: ControlPlane, count: int, *, cpu: str, prefix: str = "p", scheduler: str = NAME
) -> None:
    """Many pods, on a connection of its own."""
    with Client(cluster.server, cluster.ca.cert, token=cluster.admin_token) as client:
        for number in range(count):
            client.create("pods", pod_manifest(f"{prefix}{number}", cpu=cpu, scheduler_name=scheduler))


def wait_bound(cluster: ControlPlane, count: int) -> None:
    """Wait until so many pods have a node."""

    def bound() -> bool:
        for child in cluster.api.watched:
            child.check()
        return sum(bool(pod["spec"].get("nodeName")) for pod in cluster.api.items("pods")) >= count

    logs = lambda: "\n".join(child.log_tail() for child in cluster.api.watched)  # noqa: E731
    wait_until(bound, MANY_SECONDS, what=f"{count} pods are bound", explain=logs, poll_seconds=0.2)


def check_sizes(cluster: ControlPlane, *, cpu_milli: int, pods: int) -> None:
    """No node has more on it than fits."""
    cpu: dict[str, int] = defaultdict(int)
    count: dict[str, int] = defaultdict(int)
    for pod in cluster.api.items("pods"):
        node = pod["spec"]["nodeName"]
        asked = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
        cpu[node] += int(asked.removesuffix("m")) if asked.endswith("m") else 1000 * int(asked)
        count[node] += 1
    assert {node: amount for node, amount in cpu.items() if amount > cpu_milli} == {}
    assert {node: number for node, number in count.items() if number > pods} == {}


def count_events(cluster: ControlPlane, reason: str) -> int:
    """How many Events there are for that reason."""
    return sum(event["reason"] == reason for event in cluster.api.items("events"))


def nominated(cluster: ControlPlane, pod: str) -> str | None:
    """The node that is kept for a pod."""
    name: str | None = cluster.api.get("pods", pod)["status"].get("nominatedNodeName")
    return name


def ending(cluster: ControlPlane, name: str) -> Json | None:
    """A pod that was told to end, and has time for it."""
    pod = cluster.api.get("pods", name)
    return pod if "deletionTimestamp" in pod["metadata"] else None


def node_affinity(key: str, operator: str, value: str) -> dict[str, object]:
    """A pod that must be on nodes whose label is so."""
    term = {"matchExpressions": [{"key": key, "operator": operator, "values": [value]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
