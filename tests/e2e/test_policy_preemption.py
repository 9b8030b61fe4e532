"""Preemption on the real kube-scheduler: protected pods stay, cheaper ones go, a group keeps its minimum."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.plane import ControlPlane
from tests.e2e.extender import Extender

pytestmark = pytest.mark.e2e

COST = "bayplan.dev/eviction-cost"
WEB = {"app": "web"}


def extender(cluster: ControlPlane, directory: Path, **args: Any) -> Extender:
    config = {"policies": [{"use": "Preemption", "args": args}]}
    return Extender(cluster.api, directory, "", kubeconfig=cluster.kubeconfig, config=config)


def fill(
    cluster: ControlPlane,
    *,
    notes: Mapping[str, Mapping[str, str]] | None = None,
    labels: Mapping[str, Mapping[str, str]] | None = None,
) -> None:
    """Two nodes with room for one pod each. kube-scheduler alone evicts ``lower``: its priority is lower."""
    api = cluster.api
    api.create_priority_class("urgent", 1000)
    for name, priority in (("lower", 1), ("low", 2)):
        api.create_priority_class(name, priority)
        api.create_node(f"of-{name}", cpu="1")
        api.create_pod(
            name,
            cpu="1",
            node_name=f"of-{name}",
            priority_class=name,
            annotations=(notes or {}).get(name, {}),
            labels=(labels or {}).get(name, {}),
        )
        api.set_phase(name, "Running")


def test_a_protected_pod_stays_though_its_priority_is_the_lowest(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    fill(cluster, notes={"lower": {"bayplan.dev/protected": "true"}})

    with extender(cluster, tmp_path) as bayplan, cluster.scheduler(extenders=[bayplan.entry()]):
        cluster.api.create_pod("urgent", cpu="1", priority_class="urgent")

        assert cluster.api.wait_bound("urgent") == "of-low"
        assert cluster.api.find("pods", "low") is None
        assert cluster.api.find("pods", "lower") is not None
        assert "dropped node of-lower: pod default/lower is protected by protected" in bayplan.log()


def test_of_two_candidates_the_one_with_cheaper_victims_goes(cluster: ControlPlane, tmp_path: Path) -> None:
    fill(cluster, notes={"lower": {COST: "100"}, "low": {COST: "10"}})

    with extender(cluster, tmp_path) as bayplan, cluster.scheduler(extenders=[bayplan.entry()]):
        cluster.api.create_pod("urgent", cpu="1", priority_class="urgent")

        assert cluster.api.wait_bound("urgent") == "of-low"
        assert cluster.api.find("pods", "low") is None
        assert cluster.api.find("pods", "lower") is not None
        assert "dropped node of-lower: its victims cost more than those on of-low" in bayplan.log()


def test_where_costs_are_equal_kube_scheduler_chooses(cluster: ControlPlane, tmp_path: Path) -> None:
    fill(cluster)

    with extender(cluster, tmp_path) as bayplan, cluster.scheduler(extenders=[bayplan.entry()]):
        cluster.api.create_pod("urgent", cpu="1", priority_class="urgent")

        assert cluster.api.wait_bound("urgent") == "of-lower"
        assert "dropped node" not in bayplan.log()


def test_the_last_pods_of_a_group_stay_and_the_urgent_pod_waits_for_another(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    fill(cluster, labels={"lower": WEB, "low": WEB})
    budget = {"pods": {"podSelector": {"matchLabels": WEB}}, "minRunning": 1}

    with (
        extender(cluster, tmp_path, budgets=[budget]) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry()]),
    ):
        cluster.api.create_pod("urgent", cpu="1", priority_class="urgent")
        assert cluster.api.wait_bound("urgent") == "of-lower"

        cluster.api.create_pod("later", cpu="1", priority_class="urgent")
        cluster.api.wait_event("later", "FailedScheduling", containing="Insufficient cpu")
        bayplan.wait_metric(2, "bayplan_requests_total", verb="preempt")

        assert cluster.api.find("pods", "low") is not None
        assert cluster.api.node_of("later") is None
        assert "fewer than 1 pods of the group of default/low would stay" in bayplan.log()
