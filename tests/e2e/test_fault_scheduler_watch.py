"""The watch is late, or has to begin anew, while binds go on: what was placed is counted all the same."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.after_fault import check_events, is_ours, overfilled, used, wait_settled
from tests.e2e.fault_proxy import Fault
from tests.e2e.second_scheduler import NAME, SecondScheduler
from tests.e2e.test_fault_apiserver import etcd
from tests.e2e.test_schedule import create_pods, wait_bound
from tests.e2e.two_schedulers import BindProxy

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

NODES, EACH = 10, 20
LAG_SECONDS = 4.0


def test_the_past_is_compacted_in_mid_burst(cluster: ControlPlane, tmp_path: Path) -> None:
    """410: pods were placed, deleted and made anew between the last event and the new list."""
    make_nodes(cluster)
    spare = 10
    with BindProxy(cluster, tmp_path) as proxy:
        with SecondScheduler(cluster.api, tmp_path, kubeconfig=proxy.kubeconfig) as bayplan:
            cluster.api.create_pod("big", cpu="64", scheduler_name=NAME)
            cluster.api.create_pod("big-and-gone", cpu="64", scheduler_name=NAME)
            for name in ("big", "big-and-gone"):
                cluster.api.wait_unschedulable(name)
            create_pods(cluster, NODES * EACH, cpu="200m")
            wait_until(lambda: len(proxy.binds) >= 40, 30, what="binds are under way")
            proxy.fault = no_watch
            proxy.cut()
            before = cluster.api.get("pods", "big")["metadata"]["uid"]
            # Small this time, and of the same name; the scheduler knows of neither.
            for name in ("big", "big-and-gone"):
                cluster.api.delete("pods", name)
            again = cluster.api.create_pod("big", cpu="200m", scheduler_name=NAME)
            assert again["metadata"]["uid"] != before
            create_pods(cluster, spare - 1, cpu="200m", prefix="more")
            revision = etcd(cluster, "range", key="/registry/none")["header"]["revision"]
            etcd(cluster, "compaction", revision=revision, physical=True)
            # A new one has no memory of its own of what etcd has forgotten.
            os.kill(cluster.apiserver.pid, signal.SIGKILL)
            cluster.apiserver.wait_ended()
            cluster.start_apiserver()
            proxy.fault = lambda _method, _path: ""

            outcome = wait_settled(cluster, bayplan)
            assert (len(outcome.bound), len(outcome.waiting)) == (NODES * EACH, spare)
            assert "/api/v1/pods: the past is gone (410)" in bayplan.log()
        proxy.check_bound_once()
    print(f"\ncompacted to revision {revision} in mid-burst: {len(proxy.binds)} binds were asked for")


def test_a_late_watch_does_not_make_room_that_is_not_there(cluster: ControlPlane, tmp_path: Path) -> None:
    """All is placed before an event tells of it: what is assumed keeps nodes from being filled twice."""
    make_nodes(cluster)
    with BindProxy(cluster, tmp_path) as proxy:
        with SecondScheduler(cluster.api, tmp_path, kubeconfig=proxy.kubeconfig) as bayplan:
            proxy.lag_seconds = LAG_SECONDS
            create_pods(cluster, NODES * EACH + 10, cpu="200m")
            wait_bound(cluster, NODES * EACH)
            assumed = bayplan.metric("bayplan_assumed_pods")
            proxy.lag_seconds = 0.0
            outcome = wait_settled(cluster, bayplan)
            assert (len(outcome.bound), len(outcome.waiting)) == (NODES * EACH, 10)
        proxy.check_bound_once()
    assert assumed, "the watch was late"
    print(
        f"\nwatch {LAG_SECONDS:.0f} s late: {assumed:.0f} of {NODES * EACH} pods on their nodes by assumption"
    )


def test_beside_another_scheduler_a_late_watch_may_cost_room_once_and_no_more(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """Two schedulers cannot know of what the other does this moment; each must stop when it does know."""
    make_nodes(cluster)
    ours, theirs, more = NODES * EACH * 2 // 3, NODES * EACH * 2 // 3, 20
    with (
        BindProxy(cluster, tmp_path) as proxy,
        SecondScheduler(cluster.api, tmp_path, kubeconfig=proxy.kubeconfig) as bayplan,
        cluster.scheduler(),
    ):
        proxy.lag_seconds = LAG_SECONDS
        streams = [
            threading.Thread(target=create_pods, args=(cluster, count), kwargs=kwargs)
            for count, kwargs in (
                (ours, {"cpu": "200m", "prefix": "ours"}),
                (theirs, {"cpu": "200m", "prefix": "theirs", "scheduler": "default-scheduler"}),
            )
        ]
        for stream in streams:
            stream.start()
        for stream in streams:
            stream.join()
        wait_bound(cluster, NODES * EACH)
        proxy.lag_seconds = 0.0
        wait_until(
            lambda: (
                bayplan.metric("bayplan_view_pods") == ours + theirs
                and bayplan.metric("bayplan_assumed_pods") == 0
            ),
            30,
            what="the watch has caught up",
        )
        wait_settled(cluster, bayplan, overfull=[f"n{number}" for number in range(NODES)])
        assert overfilled(cluster.api, by=is_ours) == set(), "ours alone are never too many"

        full, before = overfilled(cluster.api), used(cluster.api, by=is_ours)
        create_pods(cluster, more, cpu="200m", prefix="more")
        wait_settled(cluster, bayplan, overfull=full)
        after = used(cluster.api, by=is_ours)
        assert {node for node in full if after[node] != before[node]} == set(), "once known, never again"
        check_events(cluster.api)
    beyond = sum(max(0, there["pods"] // 1000 - EACH) for there in used(cluster.api).values())
    print(f"\nbeside kube-scheduler, watch {LAG_SECONDS:.0f} s late: {len(full)} overfull, by {beyond} pods")


def make_nodes(cluster: ControlPlane) -> None:
    """Nodes that are full with `EACH` pods of a fifth of a core, by both counts."""
    for number in range(NODES):
        cluster.api.create_node(f"n{number}", cpu="4", pods=EACH)


def no_watch(_method: str, path: str) -> Fault:
    """Everything works but the watch."""
    return "request lost" if "watch=true" in path else ""
