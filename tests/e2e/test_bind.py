"""Pods are bound through us, with no more rights than that takes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.e2e.extender import Extender, Json

pytestmark = pytest.mark.e2e

LEAST_RIGHTS = [
    {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]},
]

PASS_ALL = """
    import bayplan

    @bayplan.filter
    def anywhere(pod, node):
        return True
"""


@pytest.fixture
def bayplan(cluster: ControlPlane, tmp_path: Path) -> Iterator[Extender]:
    """A server with the least rights that let it bind, on a cluster with the nodes n1 and n2."""
    cluster.api.create_node("n1")
    cluster.api.create_node("n2")
    kubeconfig = cluster.kubeconfig_for("bayplan", LEAST_RIGHTS)
    with Extender(cluster.api, tmp_path, PASS_ALL, kubeconfig=kubeconfig) as running:
        yield running


def binding(pod: Json, node: str) -> Json:
    """What kube-scheduler sends to bind a pod."""
    metadata = pod["metadata"]
    return {
        "PodName": metadata["name"],
        "PodNamespace": metadata["namespace"],
        "PodUID": metadata["uid"],
        "Node": node,
    }


def test_kube_scheduler_binds_through_us(cluster: ControlPlane, bayplan: Extender) -> None:
    with cluster.scheduler(extenders=[bayplan.entry(bind=True)]):
        cluster.api.create_pod("p")

        node = cluster.api.wait_bound("p")

        assert cluster.api.wait_event("p", "Scheduled").endswith(f"default/p to {node}")
        bayplan.wait_metric(1, "bayplan_requests_total", verb="bind", result="ok")
        assert bayplan.requests("bind") == 1
        assert bayplan.metric("bayplan_request_duration_seconds_count", verb="bind") == 1


def test_without_a_bind_verb_kube_scheduler_binds_by_itself(cluster: ControlPlane, bayplan: Extender) -> None:
    with cluster.scheduler(extenders=[bayplan.entry()]):
        cluster.api.create_pod("p")

        cluster.api.wait_event("p", "Scheduled")

        assert bayplan.requests("bind") == 0


def test_binding_twice_to_the_same_node_is_binding_once(cluster: ControlPlane, bayplan: Extender) -> None:
    pod = cluster.api.create_pod("p")

    answers = [bayplan.call("bind", binding(pod, "n1")) for _ in range(3)]

    assert answers == [{"Error": ""}] * 3
    assert cluster.api.node_of("p") == "n1"


def test_a_bound_pod_does_not_move(cluster: ControlPlane, bayplan: Extender) -> None:
    pod = cluster.api.create_pod("p", node_name="n1")

    answer = bayplan.call("bind", binding(pod, "n2"))

    assert answer == {"Error": "pod default/p is already bound to n1"}
    assert cluster.api.node_of("p") == "n1"
    assert bayplan.requests("bind", result="error") == 1
    assert "pod default/p is already bound to n1" in bayplan.log()


def test_a_pod_made_anew_under_the_same_name_is_another_pod(cluster: ControlPlane, bayplan: Extender) -> None:
    old = cluster.api.create_pod("p")
    cluster.api.delete("pods", "p")
    new = cluster.api.create_pod("p")

    answer = bayplan.call("bind", binding(old, "n1"))

    uids = f"UID {new['metadata']['uid']}, asked for {old['metadata']['uid']}"
    assert answer == {"Error": f"pod default/p is another one now: {uids}"}
    assert cluster.api.node_of("p") is None


def test_a_pod_that_is_gone_cannot_be_bound(cluster: ControlPlane, bayplan: Extender) -> None:
    pod = cluster.api.create_pod("p")
    cluster.api.delete("pods", "p")

    answer = bayplan.call("bind", binding(pod, "n1"))

    # On reading or on binding it, depending on what our watch has told us by then.
    doing = r"(reading pod default/p|binding default/p to n1)"
    assert re.match(rf"{doing}: the API server said 404", answer["Error"])


def test_a_missing_right_is_named_in_the_event(cluster: ControlPlane, bayplan: Extender) -> None:
    cluster.kubeconfig_for("bayplan", LEAST_RIGHTS[:2])

    with cluster.scheduler(extenders=[bayplan.entry(bind=True)]):
        cluster.api.create_pod("p")

        said = cluster.api.wait_event("p", "FailedScheduling", containing="pods/binding")
        assert 'User "bayplan" cannot create resource "pods/binding"' in said
        assert "the user lacks a right" in said
        cluster.kubeconfig_for("bayplan", LEAST_RIGHTS)
        cluster.api.wait_bound("p")
