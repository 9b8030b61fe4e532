"""``bayplan schedule`` is killed in mid-burst: whoever comes next goes on, and every pod is bound once."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest
import yaml

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.second_scheduler import NAME, SecondScheduler
from tests.e2e.test_schedule import check_sizes, create_pods, wait_bound

pytestmark = pytest.mark.e2e

NODES, PODS, MANY = 10, 300, 1000
LEASE_SECONDS = 4


def test_killed_in_mid_burst_and_started_again(cluster: ControlPlane, tmp_path: Path) -> None:
    for number in range(NODES):
        cluster.api.create_node(f"n{number}", cpu="4", pods=30)
    bayplan = SecondScheduler(cluster.api, tmp_path, kubeconfig=cluster.kubeconfig)
    stream = threading.Thread(target=create_pods, args=(cluster, PODS), kwargs={"cpu": "100m"})
    with bayplan:
        stream.start()
        wait_bound(cluster, 50)
        os.kill(bayplan.child.pid, signal.SIGKILL)
        assert bayplan.child.wait_ended() == -signal.SIGKILL
        stream.join()
    left = PODS - count_bound(cluster)
    with bayplan:
        wait_bound(cluster, PODS)
        check_sizes(cluster, cpu_milli=4000, pods=30)
        assert bayplan.metric("bayplan_schedule_attempts_total", result="scheduled") == left
    print(f"\nkilled with {PODS - left} of {PODS} pods bound; the other {left} were bound after the restart")


def test_of_two_one_schedules_and_the_other_takes_over_when_it_is_killed(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    for number in range(NODES):
        cluster.api.create_node(f"n{number}", cpu="4", pods=30)
    config = tmp_path / "bayplan.yaml"
    lease = {"leaseDuration": f"{LEASE_SECONDS}s"}
    section = {"profiles": [{"schedulerName": NAME}], "leaderElection": lease, "bindTimeout": "1500ms"}
    document = {"apiVersion": "bayplan.dev/v1", "kind": "BayplanConfiguration", "scheduler": section}
    config.write_text(yaml.safe_dump(document))
    first, second = (
        SecondScheduler(
            cluster.api, tmp_path, kubeconfig=cluster.kubeconfig, name=name, flags=[f"--config={config}"]
        )
        for name in ("first", "second")
    )
    stream = threading.Thread(target=create_pods, args=(cluster, PODS), kwargs={"cpu": "100m"})
    with second, first:
        wait_until(lambda: leads(first) or leads(second), 30, what="one of them leads")
        leader, other = (first, second) if leads(first) else (second, first)
        assert not leads(other)
        assert other.ops("/readyz")[0] == 200
        stream.start()
        wait_bound(cluster, 50)
        assert other.metric("bayplan_schedule_attempts_total") == 0
        os.kill(leader.child.pid, signal.SIGKILL)
        leader.child.wait_ended()
        cluster.api.watched.remove(leader.child)
        stream.join()
        wait_bound(cluster, PODS)
        check_sizes(cluster, cpu_milli=4000, pods=30)
        assert leads(other)
        cluster.api.watched.append(leader.child)


def test_the_api_server_is_killed_in_mid_burst_and_comes_back(cluster: ControlPlane, tmp_path: Path) -> None:
    for number in range(NODES):
        cluster.api.create_node(f"n{number}", cpu="4")
    create_pods(cluster, MANY, cpu="10m")

    with SecondScheduler(cluster.api, tmp_path, kubeconfig=cluster.kubeconfig) as bayplan:
        bayplan.child.wait_until(
            lambda: bayplan.metric("bayplan_schedule_attempts_total", result="scheduled") >= 20, 30
        )
        os.kill(cluster.apiserver.pid, signal.SIGKILL)
        cluster.apiserver.wait_ended()
        left = MANY - int(bayplan.metric("bayplan_schedule_attempts_total", result="scheduled"))
        cluster.start_apiserver()
        assert left, "it was killed in time"
        wait_bound(cluster, MANY)
        check_sizes(cluster, cpu_milli=4000, pods=110)
        wait_until(
            lambda: bayplan.metric("bayplan_unsettled_binds") == bayplan.metric("bayplan_pending_pods") == 0,
            30,
            what="nothing is unsettled, and nothing waits",
            explain=bayplan.child.log_tail,
        )
        assert bayplan.metric("bayplan_schedule_attempts_total", result="scheduled") == MANY
    print(f"\nkilled with {MANY - left} of {MANY} pods bound; the other {left} were bound when it was back")


def count_bound(cluster: ControlPlane) -> int:
    """How many pods have a node."""
    return sum(bool(pod["spec"].get("nodeName")) for pod in cluster.api.items("pods"))


def leads(bayplan: SecondScheduler) -> bool:
    """Whether it may bind."""
    return bayplan.metric("bayplan_writer") == 1
