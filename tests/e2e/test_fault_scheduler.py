"""``bayplan schedule`` is killed in mid-burst: whoever comes next goes on, and every pod is bound once."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.e2e.after_fault import wait_settled
from tests.e2e.second_scheduler import SecondScheduler
from tests.e2e.test_schedule import create_pods, wait_bound
from tests.e2e.two_schedulers import leader_first, leads, scheduled, short_lease

pytestmark = pytest.mark.e2e

NODES, PODS, MANY = 10, 300, 1000


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
        assert len(wait_settled(cluster, bayplan).bound) == PODS
        assert scheduled(bayplan) == left
    print(f"\nkilled with {PODS - left} of {PODS} pods bound; the other {left} were bound after the restart")


def test_of_two_one_schedules_and_the_other_takes_over_when_it_is_killed(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    for number in range(NODES):
        cluster.api.create_node(f"n{number}", cpu="4", pods=30)
    flag = short_lease(tmp_path)
    first, second = (
        SecondScheduler(cluster.api, tmp_path, kubeconfig=cluster.kubeconfig, name=name, flags=[flag])
        for name in ("first", "second")
    )
    stream = threading.Thread(target=create_pods, args=(cluster, PODS), kwargs={"cpu": "100m"})
    with second, first:
        leader, other = leader_first(first, second)
        assert not leads(other)
        assert other.ops("/readyz")[0] == 200
        stream.start()
        wait_bound(cluster, 50)
        assert other.metric("bayplan_schedule_attempts_total") == 0
        leader.kill()
        stream.join()
        assert len(wait_settled(cluster, other).bound) == PODS
        assert leads(other)


def test_the_api_server_is_killed_in_mid_burst_and_comes_back(cluster: ControlPlane, tmp_path: Path) -> None:
    for number in range(NODES):
        cluster.api.create_node(f"n{number}", cpu="4")
    create_pods(cluster, MANY, cpu="10m")

    with SecondScheduler(cluster.api, tmp_path, kubeconfig=cluster.kubeconfig) as bayplan:
        bayplan.child.wait_until(lambda: scheduled(bayplan) >= 20, 30)
        os.kill(cluster.apiserver.pid, signal.SIGKILL)
        cluster.apiserver.wait_ended()
        left = MANY - scheduled(bayplan)
        cluster.start_apiserver()
        assert left, "it was killed in time"
        assert len(wait_settled(cluster, bayplan).bound) == MANY
        assert scheduled(bayplan) == MANY
    print(f"\nkilled with {MANY - left} of {MANY} pods bound; the other {left} were bound when it was back")


def count_bound(cluster: ControlPlane) -> int:
    """How many pods have a node."""
    return sum(bool(pod["spec"].get("nodeName")) for pod in cluster.api.items("pods"))
