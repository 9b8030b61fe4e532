"""Gangs on a real API server: all members are bound, in one rack, or none; and each is told why not."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.asking import why
from tests.e2e.fault_proxy import Fault, FaultProxy
from tests.e2e.second_scheduler import NAME, SecondScheduler
from tests.parity.volumes import DRIVER, SELECTED_NODE, claim, storage_class

pytestmark = pytest.mark.e2e

RACK = "example.com/rack"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
PATIENCE_SECONDS = 30.0


def test_a_gang_by_labels_is_bound_in_one_rack_once_its_last_member_is_there(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    racks(cluster, {"r1": 3, "r2": 4, "r3": 4})
    with SecondScheduler(cluster.api, tmp_path, kubeconfig=cluster.kubeconfig) as bayplan:
        members = create_gang(cluster, "train", size=8, members=7, within=RACK)
        for member in members:
            message = "gang default/train: 7 of 8 members are there"
            wait_said(cluster, member, message)
            assert cluster.api.wait_unschedulable(member) == message
        assert bound(cluster) == {}
        assert bayplan.metric("bayplan_pending_pods", queue="gang") == 7
        server = f"http://127.0.0.1:{bayplan.page_port}"
        (group,) = why("train-0", server)["refused"]
        assert (group["policy"], group["reason"]) == ("Gang", "pod waits for its gang")
        assert group["details"][0] == message

        cluster.api.create_pod("alone", cpu="1", scheduler_name=NAME)
        cluster.api.wait_bound("alone")

        create_gang(cluster, "train", size=8, members=1, within=RACK, first=7)
        wait_bound(cluster, 9)
        nodes = {name: node for name, node in bound(cluster).items() if name != "alone"}
        assert len({rack_of(node) for node in nodes.values()}) == 1
        assert rack_of(nodes["train-0"]) in ("r2", "r3"), "eight CPUs are only there"
        assert bayplan.metric("bayplan_gang_attempts_total", result="placed") == 1
        said = why("train-0", server)
        assert said["chosen"] == nodes["train-0"]
        assert "node is not in the domain of the gang" in {group["reason"] for group in said["refused"]}


def test_a_gang_that_does_not_fit_holds_nothing_and_each_member_is_told_why(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    racks(cluster, {"r1": 2, "r2": 1})
    with SecondScheduler(cluster.api, tmp_path, kubeconfig=cluster.kubeconfig):
        members = create_gang(cluster, "big", size=5, within=RACK)
        misfit = "0/2 nodes are available: 2 Insufficient cpu."
        where = f"in {RACK} r1, the best of 2"
        wait_said(
            cluster, "big-4", f"{misfit} gang default/big: 4 others would fit {where}. A gang evicts nobody."
        )
        for member in members[:4]:
            wait_said(cluster, member, f"gang default/big: member big-4 does not fit {where}: {misfit}")
        assert bound(cluster) == {}

        for number in range(6):
            cluster.api.create_pod(f"alone-{number}", cpu="1", scheduler_name=NAME)
        wait_bound(cluster, 6)
        assert all(name.startswith("alone") for name in bound(cluster)), "whoever fits goes on"

        racks(cluster, {"r3": 3})
        wait_bound(cluster, 11)
        assert {rack_of(bound(cluster)[member]) for member in members} == {"r3"}


def test_of_two_gangs_that_each_need_more_than_half_one_is_placed_and_then_the_other(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    racks(cluster, {"r1": 5})
    with SecondScheduler(cluster.api, tmp_path, kubeconfig=cluster.kubeconfig):
        for number in range(6):
            # In turn, so that both have members in the queue all the time.
            for name in ("a", "b"):
                create_gang(cluster, name, size=6, members=1, first=number)
        wait_bound(cluster, 6)
        first = gangs_bound(cluster)
        assert list(first.values()) == [6]
        (winner,) = first
        loser = "b" if winner == "a" else "a"
        for number in range(6):
            wait_until(
                lambda number=number: any(  # type: ignore[misc]
                    "Insufficient cpu" in text for text in said(cluster, f"{loser}-{number}")
                ),
                PATIENCE_SECONDS,
                what=f"{loser}-{number} is told",
            )
        assert gangs_bound(cluster) == first

        for number in range(6):
            cluster.api.delete("pods", f"{winner}-{number}")
        wait_bound(cluster, 6)
        assert gangs_bound(cluster) == {loser: 6}


def test_a_gang_that_waits_too_long_is_told_so_and_goes_on_waiting(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    racks(cluster, {"r1": 2})
    with SecondScheduler(cluster.api, tmp_path, kubeconfig=cluster.kubeconfig) as bayplan:
        members = create_gang(cluster, "slow", size=3, members=2, timeout="2s")
        late = "gang default/slow: not placed within 2 s. gang default/slow: 2 of 3 members are there"
        for member in members:
            wait_said(cluster, member, late)
        assert bayplan.metric("bayplan_gang_attempts_total", result="timeout") >= 1

        create_gang(cluster, "slow", size=3, members=1, timeout="2s", first=2)
        wait_bound(cluster, 3)


def test_what_a_gang_holds_while_a_volume_is_made_is_given_back_at_its_timeout(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    api = cluster.api
    racks(cluster, {"r1": 1})
    objects = {
        CLASSES: storage_class("never", provisioner=DRIVER),
        CLAIMS: claim("data", storage_class="never"),
    }
    for path, manifest in objects.items():
        api.request("POST", path, body=manifest)
    try:
        with SecondScheduler(api, tmp_path, kubeconfig=cluster.kubeconfig):
            create_gang(cluster, "with-disk", size=2, members=1, timeout="3s")
            volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
            create_gang(cluster, "with-disk", size=2, members=1, timeout="3s", first=1, volumes=[volume])
            wait_until(
                lambda: (
                    SELECTED_NODE
                    in (api.request("GET", f"{CLAIMS}/data")["metadata"].get("annotations") or {})
                ),
                PATIENCE_SECONDS,
                what="a volume is asked for",
            )
            api.create_pod("alone", cpu="2", scheduler_name=NAME)

            assert api.wait_bound("alone", timeout_seconds=PATIENCE_SECONDS) == "r1-0"
            assert api.node_of("with-disk-0") is None, "nobody is bound before all have their volumes"
            for member in ("with-disk-0", "with-disk-1"):
                wait_said(
                    cluster, member, "gang default/with-disk: not all members could be bound within 3 s"
                )
    finally:
        for path, manifest in objects.items():
            api.request("DELETE", f"{path}/{manifest['metadata']['name']}")


def test_killed_while_a_gang_is_bound_the_rest_follows_into_the_same_rack(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    racks(cluster, {"r1": 30, "r2": 30})
    config = tmp_path / "bayplan.yaml"
    section = {"profiles": [{"schedulerName": NAME}], "parallelBinds": 1}
    document = {"apiVersion": "bayplan.dev/v1", "kind": "BayplanConfiguration", "scheduler": section}
    config.write_text(yaml.safe_dump(document))
    flags = [f"--config={config}", "--no-leader-elect"]
    create_gang(cluster, "train", size=60, members=59, within=RACK)
    with FaultProxy(cluster, tmp_path) as proxy:

        def twenty_binds(method: str, path: str) -> Fault:
            more = path.endswith("/binding") and proxy.count("POST", "/binding") >= 20
            return "request swallowed" if more else ""

        proxy.decide = twenty_binds
        killed = SecondScheduler(cluster.api, tmp_path, kubeconfig=proxy.kubeconfig, flags=flags)
        with killed:
            create_gang(cluster, "train", size=60, members=1, within=RACK, first=59)
            wait_until(lambda: proxy.faults, PATIENCE_SECONDS, what="the next bind is on its way")
            os.kill(killed.child.pid, signal.SIGKILL)
            assert killed.child.wait_ended() == -signal.SIGKILL
    before = bound(cluster)
    assert len(before) == 20
    with SecondScheduler(
        cluster.api, tmp_path, kubeconfig=cluster.kubeconfig, name="next", flags=["--no-leader-elect"]
    ):
        wait_bound(cluster, 60)
        after = bound(cluster)
        assert before.items() <= after.items()
        assert len({rack_of(node) for node in after.values()}) == 1
    print(f"\nkilled with {len(before)} of 60 members bound")


def test_a_hook_says_which_pods_are_a_gang_and_bad_labels_are_told(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    racks(cluster, {"r1": 2, "r2": 2})
    policy = tmp_path / "policy.py"
    policy.write_text(
        "import bayplan\n\n"
        "@bayplan.gang\n"
        "def ranks(pod):\n"
        "    if job := pod.labels.get('job'):\n"
        f"        return bayplan.Gang(job, size=3, within=bayplan.Label({RACK!r}))\n"
    )
    with SecondScheduler(cluster.api, tmp_path, policy, kubeconfig=cluster.kubeconfig):
        for number in range(2):
            cluster.api.create_pod(f"rank-{number}", cpu="1", labels={"job": "j"}, scheduler_name=NAME)
        wait_said(cluster, "rank-0", "gang default/j: 2 of 3 members are there")
        cluster.api.create_pod("rank-2", cpu="1", labels={"job": "j"}, scheduler_name=NAME)
        wait_bound(cluster, 3)
        assert len({rack_of(node) for node in bound(cluster).values()}) == 1

        labels = {"bayplan.dev/gang": "typo", "bayplan.dev/gang-size": "many"}
        cluster.api.create_pod("typo", labels=labels, scheduler_name=NAME)
        wait_said(
            cluster, "typo", "bayplan.dev/gang-size: want how many pods the gang has, 1 or more; got 'many'"
        )
        cluster.api.patch("pods", "typo", {"metadata": {"labels": {"bayplan.dev/gang-size": "1"}}})
        cluster.api.wait_bound("typo")

        create_gang(cluster, "hasty", size=2, timeout="1ms")
        wait_said(cluster, "hasty-0", "bayplan.dev/gang-timeout: want 1s or more; got '1ms'")


def test_a_hook_that_is_slow_for_one_pod_stops_that_pod_alone(cluster: ControlPlane, tmp_path: Path) -> None:
    racks(cluster, {"r1": 3})
    policy = tmp_path / "policy.py"
    policy.write_text(
        "import time\n\n"
        "import bayplan\n\n"
        "@bayplan.gang\n"
        "def ranks(pod):\n"
        "    if pod.name == 'slow':\n"
        "        time.sleep(1.5)\n"
        "    if job := pod.labels.get('job'):\n"
        "        return bayplan.Gang(job, size=2)\n"
    )
    with SecondScheduler(cluster.api, tmp_path, policy, kubeconfig=cluster.kubeconfig):
        cluster.api.create_pod("slow", cpu="1", scheduler_name=NAME)
        wait_until(
            lambda: any("ranks: still running after 1.0 s" in text for text in said(cluster, "slow")),
            PATIENCE_SECONDS,
            what="the slow one is told",
        )
        for number in range(2):
            cluster.api.create_pod(f"alone-{number}", cpu="1", scheduler_name=NAME)
            cluster.api.create_pod(f"rank-{number}", cpu="1", labels={"job": "j"}, scheduler_name=NAME)
        wait_bound(cluster, 4)
        assert cluster.api.node_of("slow") is None


def racks(cluster: ControlPlane, sizes: Mapping[str, int]) -> None:
    """Nodes of two CPUs, so many in each rack."""
    for rack, count in sizes.items():
        for number in range(count):
            cluster.api.create_node(f"{rack}-{number}", cpu="2", labels={RACK: rack})


def create_gang(
    cluster: ControlPlane,
    name: str,
    *,
    size: int,
    members: int | None = None,
    first: int = 0,
    within: str = "",
    timeout: str = "",
    **spec: Any,
) -> list[str]:
    """Members of one CPU each; their names."""
    labels = {"bayplan.dev/gang": name, "bayplan.dev/gang-size": str(size)}
    if timeout:
        labels["bayplan.dev/gang-timeout"] = timeout
    annotations = {"bayplan.dev/gang-within": within} if within else {}
    names = [f"{name}-{number}" for number in range(first, first + (size if members is None else members))]
    for each in names:
        cluster.api.create_pod(
            each, cpu="1", labels=labels, annotations=annotations, scheduler_name=NAME, spec=spec
        )
    return names


def bound(cluster: ControlPlane) -> dict[str, str]:
    """The node of each pod that has one."""
    pods = cluster.api.items("pods")
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}


def gangs_bound(cluster: ControlPlane) -> dict[str, int]:
    names = [name.partition("-")[0] for name in bound(cluster)]
    return {name: names.count(name) for name in names}


def wait_bound(cluster: ControlPlane, count: int) -> None:
    logs = lambda: "\n".join(child.log_tail() for child in cluster.api.watched)  # noqa: E731
    wait_until(
        lambda: len(bound(cluster)) == count, PATIENCE_SECONDS, what=f"{count} pods are bound", explain=logs
    )


def rack_of(node: str) -> str:
    return node.partition("-")[0]


def said(cluster: ControlPlane, pod: str) -> list[str]:
    events = cluster.api.events_of(pod)
    return [event["message"] for event in events if event["reason"] == "FailedScheduling"]


def wait_said(cluster: ControlPlane, pod: str, message: str) -> None:
    logs = lambda: "\n".join([*said(cluster, pod), *(c.log_tail() for c in cluster.api.watched)])  # noqa: E731
    wait_until(
        lambda: message in said(cluster, pod), PATIENCE_SECONDS, what=f"{pod}: {message}", explain=logs
    )
