"""Preemption by ``bayplan schedule``: as in kube-scheduler, and with policies that it knows nothing of."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.client import Json
from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.asking import why
from tests.e2e.second_scheduler import NAME, SecondScheduler
from tests.e2e.slices import MEMORY, NO_SLICE, SHARED, SLICE, create_slices, owners, wait_owners

pytestmark = pytest.mark.e2e

POLICY = """
import bayplan


@bayplan.protect
def keep(victim):
    return victim.labels.get("keep") == "yes"


@bayplan.victims
def price(victims):
    return sum(int(victim.labels.get("price", 0)) for victim in victims)
"""


def test_a_slice_is_freed_by_an_eviction_and_handed_to_the_pod(cluster: ControlPlane, tmp_path: Path) -> None:
    api = cluster.api
    api.create_priority_class("low", 10)
    api.create_priority_class("high", 1000)
    slices = create_slices(cluster, nodes=2, each=2)
    config = tmp_path / "bayplan.json"
    config.write_text(
        json.dumps({"apiVersion": "bayplan.dev/v1", "kind": "BayplanConfiguration", "policies": [SHARED]})
    )

    flags = [f"--config={config}"]
    with SecondScheduler(api, tmp_path, kubeconfig=cluster.kubeconfig, flags=flags) as bayplan:
        wants: dict[str, Any] = {"limits": {MEMORY: str(SLICE)}, "scheduler_name": NAME}
        for number in range(slices):
            api.create_pod(f"low-{number}", priority_class="low", **wants)
        before = wait_owners(cluster, slices)
        api.create_pod("waits", priority_class="low", **wants)
        assert api.wait_event("waits", "FailedScheduling") == (
            f"0/2 nodes are available: 2 {NO_SLICE}. no new claims to deallocate, preemption:"
            " 0/2 nodes are available: 2 No preemption victims found for incoming pod."
        )

        for name in ("urgent", "urgent-too"):
            api.create_pod(name, priority_class="high", **wants)
            api.wait_bound(name)
        after = wait_owners(cluster, slices)

        assert {"urgent", "urgent-too"} <= after.keys()
        gone = before.keys() - after.keys()
        assert len(gone) == 2
        assert {after["urgent"], after["urgent-too"]} == {before[name] for name in gone}
        assert "waits" not in owners(cluster)
        assert bayplan.metric("bayplan_preemption_victims_sum") == 2
        page = f"http://127.0.0.1:{bayplan.page_port}"
        wait_until(lambda: all(why(victim, page)["gone"] for victim in gone), 30, what="they are gone")
        left_for = {why(victim, page)["evictedFor"] for victim in gone}
        assert left_for == {"default/urgent", "default/urgent-too"}
        told = [told["text"] for told in why("urgent", page)["history"] if told["verb"] == "evict"]
        assert len(told) == 1
        assert told[0].split()[0].removeprefix("default/") in gone


def test_a_protected_pod_stays_and_the_cheapest_of_the_others_leaves(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    api = cluster.api
    for name, value in (("low", 10), ("middle", 100), ("high", 1000)):
        api.create_priority_class(name, value)
    for node in ("guarded", "dear"):
        api.create_node(node, cpu="4")
    policy = tmp_path / "policy.py"
    policy.write_text(POLICY)
    api.create_pod("kept", cpu="2", priority_class="low", node_name="guarded", labels={"keep": "yes"})
    api.create_pod("cheap", cpu="2", priority_class="middle", node_name="guarded", labels={"price": "1"})
    api.create_pod("dear", cpu="4", priority_class="low", node_name="dear", labels={"price": "5"})

    with SecondScheduler(api, tmp_path, policy, kubeconfig=cluster.kubeconfig):
        api.create_pod("urgent", cpu="2", priority_class="high", scheduler_name=NAME)
        api.wait_gone("cheap")
        assert api.wait_bound("urgent") == "guarded"
        api.create_pod("huge", cpu="4", priority_class="high", scheduler_name=NAME)
        assert api.wait_bound("huge") == "dear"
        api.create_pod("late", cpu="4", priority_class="high", scheduler_name=NAME)
        assert api.wait_event("late", "FailedScheduling").endswith(
            "preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod,"
            " 1 node(s) with pods that are protected by keep."
        )
    assert api.node_of("kept") == "guarded"


@pytest.mark.parametrize("scheduler", [NAME, "default-scheduler"])
def test_who_wants_to_be_near_a_pod_that_waits_for_its_victim_waits_too(
    cluster: ControlPlane, tmp_path: Path, scheduler: str
) -> None:
    api = cluster.api
    api.create_priority_class("low", 10)
    api.create_priority_class("high", 1000)
    api.create_node("n1", cpu="4", labels={"kubernetes.io/hostname": "n1"})
    slow = {**with_port(8080), "terminationGracePeriodSeconds": 600}
    api.create_pod("victim", cpu="1", priority_class="low", node_name="n1", spec=slow)
    api.set_phase("victim", "Running")

    with running(cluster, tmp_path, scheduler):
        web: dict[str, Any] = {"labels": {"app": "web"}, "spec": with_port(8080)}
        api.create_pod("first", cpu="1", priority_class="high", scheduler_name=scheduler, **web)
        wait_until(lambda: nominated(cluster, "first"), 30, what="a node is kept for the pod")
        api.create_pod(
            "near", cpu="1", priority_class="high", scheduler_name=scheduler, spec=near({"app": "web"})
        )
        told = api.wait_event("near", "FailedScheduling")
        assert told.startswith("0/1 nodes are available: 1 node(s) didn't match pod affinity rules.")
        assert api.node_of("near") is None

        api.request("DELETE", "/api/v1/namespaces/default/pods/victim", body={"gracePeriodSeconds": 0})
        assert api.wait_bound("first") == "n1"
        assert api.wait_bound("near") == "n1"


def test_who_never_evicts_is_told_so_in_kube_schedulers_words(cluster: ControlPlane, tmp_path: Path) -> None:
    api = cluster.api
    api.create_priority_class("low", 10)
    api.create_priority_class("polite", 1000, preempt=False)
    api.create_node("n1", cpu="4")
    api.create_pod("there", cpu="4", priority_class="low", node_name="n1")

    with running(cluster, tmp_path, NAME), cluster.scheduler():
        for name, scheduler in (("ours", NAME), ("theirs", "default-scheduler")):
            api.create_pod(name, cpu="4", priority_class="polite", scheduler_name=scheduler)
        theirs = api.wait_event("theirs", "FailedScheduling")
        assert api.wait_event("ours", "FailedScheduling") == theirs
        assert theirs.endswith("not eligible due to preemptionPolicy=Never.")


def running(
    cluster: ControlPlane, tmp_path: Path, scheduler: str
) -> contextlib.AbstractContextManager[object]:
    """The scheduler of that name."""
    if scheduler != NAME:
        return cluster.scheduler()
    return SecondScheduler(cluster.api, tmp_path, kubeconfig=cluster.kubeconfig)


def nominated(cluster: ControlPlane, pod: str) -> str:
    """The node that is kept for the pod."""
    found: str = cluster.api.get("pods", pod)["status"].get("nominatedNodeName", "")
    return found


def with_port(port: int) -> dict[str, Any]:
    """A container that takes a port of its host."""
    container: Json = {
        "name": "main",
        "image": "registry.example/none",
        "ports": [{"containerPort": port, "hostPort": port}],
    }
    return {"containers": [container]}


def near(labels: dict[str, str]) -> dict[str, Any]:
    """On the host of such a pod."""
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
