"""Pods are deleted, and made anew under their names, at each step on their way to a node."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.after_fault import wait_settled
from tests.e2e.second_scheduler import NAME, SecondScheduler
from tests.e2e.two_schedulers import BindProxy, is_bind

pytestmark = pytest.mark.e2e

BATCH = 12

HELD = """
import pathlib
import time

import bayplan

HELD = pathlib.Path({held!r})
JUDGED = pathlib.Path({judged!r})


@bayplan.filter
def holds(pod, node):
    if HELD.exists():
        JUDGED.touch()
    while HELD.exists():
        time.sleep(0.01)
    return True
"""


def test_deleted_and_made_anew_while_they_wait(cluster: ControlPlane, tmp_path: Path) -> None:
    with SecondScheduler(cluster.api, tmp_path, kubeconfig=cluster.kubeconfig) as bayplan:
        for number in range(2 * BATCH):
            cluster.api.create_pod(f"p{number}", cpu="1", scheduler_name=NAME)
        for number in range(2 * BATCH):
            cluster.api.wait_unschedulable(f"p{number}")
        anew(cluster, range(BATCH))
        for number in range(BATCH, 2 * BATCH):
            cluster.api.delete("pods", f"p{number}")
        cluster.api.create_node("n1", cpu=str(BATCH - 2))
        outcome = wait_settled(cluster, bayplan)
        assert (len(outcome.bound), len(outcome.waiting)) == (BATCH - 2, 2)


def test_deleted_and_made_anew_while_they_are_judged(cluster: ControlPlane, tmp_path: Path) -> None:
    held, judged, policy = (tmp_path / name for name in ("held", "judged", "holds.py"))
    policy.write_text(HELD.format(held=str(held), judged=str(judged)))
    cluster.api.create_node("n1", cpu="1")
    with SecondScheduler(cluster.api, tmp_path, policy, kubeconfig=cluster.kubeconfig) as bayplan:
        for step in ("deleted", "anew", "bound by somebody else"):
            held.touch()
            cluster.api.create_pod(step.partition(" ")[0], cpu="1", scheduler_name=NAME)
            wait_until(judged.exists, 30, what="it is being judged", explain=bayplan.child.log_tail)
            change(cluster, step)
            wait_until(
                lambda: bayplan.metric("bayplan_view_pods") == len(cluster.api.items("pods")),
                30,
                what="the watch has told",
            )
            held.unlink()
            judged.unlink()
            outcome = wait_settled(cluster, bayplan)
            assert outcome.waiting == {}
            cluster.api.delete_all("pods")


def test_deleted_and_made_anew_while_they_are_bound(cluster: ControlPlane, tmp_path: Path) -> None:
    cluster.api.create_node("n1", cpu=str(3 * BATCH))
    with (
        BindProxy(cluster, tmp_path) as proxy,
        SecondScheduler(cluster.api, tmp_path, kubeconfig=proxy.kubeconfig) as bayplan,
    ):
        proxy.fault = lambda method, path: "held" if is_bind(method, path) else ""
        first = {}
        for number in range(3 * BATCH):
            made = cluster.api.create_pod(f"p{number}", cpu="1", scheduler_name=NAME)
            first[f"p{number}"] = made["metadata"]["uid"]
        wait_until(lambda: len(proxy.binds) == 3 * BATCH, 30, what="binds are under way")
        proxy.fault = lambda _method, _path: ""
        second = anew(cluster, range(BATCH))
        for number in range(BATCH, 2 * BATCH):
            cluster.api.delete("pods", f"p{number}")
        # The new ones are placed while the binds of the old are still on their way.
        for name in second:
            cluster.api.wait_bound(name)
        proxy.released.set()
        outcome = wait_settled(cluster, bayplan)
        assert (len(outcome.bound), outcome.waiting) == (2 * BATCH, {})
        for name, uid in second.items():
            assert cluster.api.get("pods", name)["metadata"]["uid"] == uid != first[name]
        # What the deleted ones held is free again.
        for number in range(BATCH, 2 * BATCH):
            cluster.api.create_pod(f"p{number}", cpu="1", scheduler_name=NAME)
        outcome = wait_settled(cluster, bayplan)
        assert (len(outcome.bound), outcome.waiting) == (3 * BATCH, {})


def test_a_reason_that_is_late_is_not_written_on_a_pod_that_has_its_node(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """More reasons than can be written at a time, and all of them on their way when room comes."""
    with (
        BindProxy(cluster, tmp_path) as proxy,
        SecondScheduler(cluster.api, tmp_path, kubeconfig=proxy.kubeconfig) as bayplan,
    ):
        proxy.fault = lambda method, _path: "held" if method == "PATCH" else ""
        for number in range(3 * BATCH):
            cluster.api.create_pod(f"p{number}", cpu="1", scheduler_name=NAME)
        wait_until(lambda: proxy.count("PATCH", "/status") >= BATCH, 30, what="reasons are under way")
        cluster.api.create_node("n1", cpu=str(3 * BATCH))
        for number in range(3 * BATCH):
            cluster.api.wait_bound(f"p{number}")
        proxy.fault = lambda _method, _path: ""
        proxy.released.set()
        wait_until(lambda: not proxy.unanswered_patches(), 30, what="what was under way has arrived")
        outcome = wait_settled(cluster, bayplan)
        assert (len(outcome.bound), outcome.waiting) == (3 * BATCH, {})


def anew(cluster: ControlPlane, numbers: range) -> dict[str, str]:
    """Delete pods, and make others of the same names at once; their UIDs."""
    uids = {}
    for number in numbers:
        cluster.api.delete("pods", f"p{number}")
        made = cluster.api.create_pod(f"p{number}", cpu="1", scheduler_name=NAME)
        uids[f"p{number}"] = made["metadata"]["uid"]
    return uids


def change(cluster: ControlPlane, step: str) -> None:
    """What happens to the pod while it is judged."""
    name = step.partition(" ")[0]
    if step == "bound by somebody else":
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
        }
        cluster.api.request("POST", f"/api/v1/namespaces/default/pods/{name}/binding", body=binding)
        return
    cluster.api.delete("pods", name)
    if step == "anew":
        cluster.api.create_pod(name, cpu="1", scheduler_name=NAME)
