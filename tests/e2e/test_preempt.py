"""Preemption: it helps where it can, and nobody is evicted for nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.extender import Extender

pytestmark = pytest.mark.e2e

NODES = ("n1", "n2")

PASS_ALL = """
    import bayplan

    @bayplan.filter
    def anywhere(pod, node):
        return True
"""

NOT_THE_URGENT = """
    import bayplan

    @bayplan.filter
    def not_the_urgent(pod, node):
        if pod.name == "urgent":
            return "not for the urgent"
"""

OUT_OF_QUOTA = """
    import bayplan

    NO_QUOTA = bayplan.Reason("no quota left", preemptible=True)

    @bayplan.filter
    def quota(pod, node):
        return NO_QUOTA
"""

KEEP_THE_PRECIOUS = """
    import bayplan

    @bayplan.protect
    def precious(pod, victim):
        return victim.labels.get("precious") == "yes"
"""


def fill(cluster: ControlPlane, *, precious: Sequence[str] = ()) -> None:
    """Two nodes with room for one pod each, and a running pod on each, which may be precious.

    kube-scheduler would rather evict from n1: the priority there is lower.
    """
    cluster.api.create_priority_class("urgent", 1000)
    cluster.api.create_priority_class("on-n1", 1)
    cluster.api.create_priority_class("on-n2", 2)
    for node in NODES:
        cluster.api.create_node(node, cpu="1")
        labels = {"precious": "yes" if node in precious else "no"}
        cluster.api.create_pod(
            f"victim-{node}", cpu="1", node_name=node, labels=labels, priority_class=f"on-{node}"
        )
        cluster.api.set_phase(f"victim-{node}", "Running")


def evicted(cluster: ControlPlane) -> list[str]:
    """The victims that are gone or going."""
    names = [f"victim-{node}" for node in NODES]
    pods = {name: cluster.api.find("pods", name) for name in names}
    return [name for name, pod in pods.items() if pod is None or "deletionTimestamp" in pod["metadata"]]


def wake(cluster: ControlPlane, attempt: int) -> None:
    """Let the nodes grow, by too little to matter: kube-scheduler then tries the pod again."""
    for node in NODES:
        status = {"status": {"allocatable": {"cpu": f"{1000 + attempt}m"}}}
        cluster.api.patch("nodes", node, status, subresource="status")


def test_an_urgent_pod_takes_the_place_of_another(cluster: ControlPlane, tmp_path: Path) -> None:
    fill(cluster)

    with (
        Extender(cluster.api, tmp_path, PASS_ALL, kubeconfig=cluster.kubeconfig) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry()]),
    ):
        cluster.api.create_pod("urgent", cpu="1", priority_class="urgent")

        assert cluster.api.wait_bound("urgent") == "n1"
        assert evicted(cluster) == ["victim-n1"]
        assert "Preempted by" in cluster.api.wait_event("victim-n1", "Preempted")
        assert bayplan.requests("preempt", result="ok") == 1
        assert bayplan.metric("bayplan_nodes_total", verb="preempt", verdict="passed") == 2


def test_nobody_is_evicted_for_a_node_that_we_would_refuse(cluster: ControlPlane, tmp_path: Path) -> None:
    fill(cluster)

    with (
        Extender(cluster.api, tmp_path, NOT_THE_URGENT, kubeconfig=cluster.kubeconfig) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry()]),
    ):
        cluster.api.create_pod("urgent", cpu="1", priority_class="urgent")
        # kube-scheduler tries a pod again only when the evictions of the last try are done: the fourth
        # question means that the first three answers have had their effect.
        for attempt in range(1, 5):
            bayplan.wait_metric(attempt, "bayplan_requests_total", verb="preempt")
            wake(cluster, attempt)

        assert evicted(cluster) == []
        assert cluster.api.node_of("urgent") is None
        assert "preempt default/urgent: dropped node n1: not for the urgent" in bayplan.log()
        assert bayplan.metric("bayplan_nodes_total", verb="preempt", verdict="passed") == 0


def test_without_the_preempt_verb_pods_are_evicted_for_nothing(cluster: ControlPlane, tmp_path: Path) -> None:
    """Nothing to be proud of: it shows that the test above can fail, and why the verb is needed."""
    fill(cluster)

    with (
        Extender(cluster.api, tmp_path, NOT_THE_URGENT, kubeconfig=cluster.kubeconfig) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry(preempt=False)]),
    ):
        cluster.api.create_pod("urgent", cpu="1", priority_class="urgent")

        wait_until(lambda: evicted(cluster), 30, what="a pod is evicted")
        cluster.api.wait_event("urgent", "FailedScheduling", containing="1 not for the urgent")
        assert cluster.api.node_of("urgent") is None


def test_a_reason_that_evictions_could_cure_does_not_trouble_kube_scheduler(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """Up to 1.37 it would in FailedNodes: "preemption: expected at least one victim pod on node"."""
    cluster.api.create_priority_class("urgent", 1000)
    cluster.api.create_node("n1", cpu="2")
    cluster.api.create_pod("victim-n1", cpu="1", node_name="n1")

    with (
        Extender(cluster.api, tmp_path, OUT_OF_QUOTA, kubeconfig=cluster.kubeconfig) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry()]),
    ):
        cluster.api.create_pod("urgent", cpu="1", priority_class="urgent")

        said = cluster.api.wait_event("urgent", "FailedScheduling")
        assert said.startswith("0/1 nodes are available: 1 no quota left.")
        assert "expected at least one victim" not in said
        assert cluster.api.wait_unschedulable("urgent", reason="Unschedulable") == said
        assert cluster.api.find("pods", "victim-n1")


def test_a_protected_pod_keeps_its_node(cluster: ControlPlane, tmp_path: Path) -> None:
    extender = Extender(cluster.api, tmp_path, KEEP_THE_PRECIOUS, kubeconfig=cluster.kubeconfig)
    with extender as bayplan, cluster.scheduler(extenders=[bayplan.entry()]):
        fill(cluster, precious=["n1"])
        # They came after the server: it must have listed the cluster again to know them.
        bayplan.wait_metric(2, "bayplan_view_pods")
        cluster.api.create_pod("urgent", cpu="1", priority_class="urgent")

        assert cluster.api.wait_bound("urgent") == "n2"
        assert evicted(cluster) == ["victim-n2"]
        said = "preempt default/urgent: dropped node n1: pod default/victim-n1 is protected by precious"
        assert said in bayplan.log()


def test_where_every_victim_is_protected_the_urgent_pod_waits(cluster: ControlPlane, tmp_path: Path) -> None:
    fill(cluster, precious=NODES)

    with (
        Extender(cluster.api, tmp_path, KEEP_THE_PRECIOUS, kubeconfig=cluster.kubeconfig) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry()]),
    ):
        cluster.api.create_pod("urgent", cpu="1", priority_class="urgent")

        cluster.api.wait_event("urgent", "FailedScheduling", containing="2 Insufficient cpu")
        assert evicted(cluster) == []
        for node in NODES:
            said = f"dropped node {node}: pod default/victim-{node} is protected by precious"
            assert said in bayplan.log()
