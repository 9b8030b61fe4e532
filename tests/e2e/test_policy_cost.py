"""Cost on the real kube-scheduler: dear nodes come last, budgets hold, spot is for whom it is meant."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.extender import Extender

pytestmark = pytest.mark.e2e

PRICE = "example.com/price-per-hour"
CAPACITY = "karpenter.sh/capacity-type"


def extender(cluster: ControlPlane, directory: Path, **args: Any) -> Extender:
    config = {"policies": [{"use": "Cost", "args": args}]}
    return Extender(cluster.api, directory, "", kubeconfig=cluster.kubeconfig, config=config)


def test_expensive_nodes_stay_empty_until_the_cheap_ones_are_full(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    api = cluster.api
    for name in ("cheap-1", "cheap-2"):
        api.create_node(name, cpu="1", labels={PRICE: "0.10"})
    # kube-scheduler itself would take it first: it is by far the emptiest.
    api.create_node("dear", cpu="32", labels={PRICE: "3.20"})

    with (
        extender(cluster, tmp_path, priceLabel=PRICE, avoidAbove=1.2) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry(bind=True)]),
    ):
        for number in range(4):
            api.create_pod(f"p{number}", cpu="500m")
        cheap = {api.wait_bound(f"p{number}") for number in range(4)}
        assert cheap == {"cheap-1", "cheap-2"}

        api.create_pod("one-more", cpu="500m")
        assert api.wait_bound("one-more") == "dear"


def test_a_namespace_gets_what_its_budget_pays_for_and_is_told_so(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    api = cluster.api
    api.create_namespace("team-a")
    api.create_namespace("other")
    for name in ("n1", "n2"):
        api.create_node(name, cpu="4", memory="4Gi", labels={PRICE: "2"})
    for number in range(8):
        # A quarter of a node that costs 2: half a unit an hour.
        api.create_pod(f"p{number}", namespace="team-a", cpu="1", memory="1Gi")
    budgets = [{"namespaces": ["team-*"], "perHour": 1.5}]

    with (
        extender(cluster, tmp_path, priceLabel=PRICE, budgets=budgets) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry(bind=True)]),
    ):
        wait_until(lambda: len(placed(cluster, "team-a")) == 3, 60, what="the budget is spent")
        waiting = next(f"p{number}" for number in range(8) if f"p{number}" not in placed(cluster, "team-a"))
        api.wait_event(
            waiting, "FailedScheduling", containing="2 namespace budget is spent", namespace="team-a"
        )
        api.create_pod("theirs", namespace="other", cpu="1", memory="1Gi")
        api.wait_bound("theirs", namespace="other")
        assert len(placed(cluster, "team-a")) == 3

        gone = next(iter(placed(cluster, "team-a")))
        api.delete("pods", gone, namespace="team-a")
        wait_until(
            lambda: gone not in (there := placed(cluster, "team-a")) and len(there) == 3,
            60,
            what="another pod is paid for",
        )


def test_what_is_paid_for_is_filled_before_another_node_is_begun(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    api = cluster.api
    for name in ("used", "empty-1", "empty-2"):
        api.create_node(name, cpu="4", memory="4Gi", labels={PRICE: "1"})
    api.create_node("empty-and-cheap", cpu="4", memory="4Gi", labels={PRICE: "0.5"})
    api.create_pod("there", cpu="1", memory="1Gi", node_name="used")

    with (
        extender(cluster, tmp_path, priceLabel=PRICE, fill=True) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry(weight=50)]),
    ):
        for number in range(6):
            api.create_pod(f"p{number}", cpu="1", memory="1Gi")
            api.wait_bound(f"p{number}")

        assert Counter(placed(cluster).values()) == {"used": 4, "empty-and-cheap": 3}


def test_spot_is_for_whom_it_is_meant(cluster: ControlPlane, tmp_path: Path) -> None:
    api = cluster.api
    api.create_node("spot", cpu="1", labels={CAPACITY: "spot"})
    api.create_node("demand", cpu="8")
    classes = [
        {"pods": {"podSelector": {"matchLabels": {"app": "db"}}}, "require": "on-demand"},
        {"pods": {"podSelector": {"matchLabels": {"app": "batch"}}}, "prefer": "spot"},
    ]

    with (
        extender(cluster, tmp_path, capacityType={"classes": classes}) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry(bind=True)]),
    ):
        api.create_pod("batch-1", cpu="800m", labels={"app": "batch"})
        assert api.wait_bound("batch-1") == "spot"
        api.create_pod("batch-2", cpu="800m", labels={"app": "batch"})
        assert api.wait_bound("batch-2") == "demand"

        api.create_pod("db", labels={"app": "db"}, node_selector={CAPACITY: "spot"})
        api.wait_event("db", "FailedScheduling", containing="1 pod needs an on-demand node")
        api.create_pod("any-db", labels={"app": "db"})
        assert api.wait_bound("any-db") == "demand"


def placed(cluster: ControlPlane, namespace: str = "default") -> dict[str, str]:
    """Node by pod, of those that have one."""
    pods = cluster.api.items("pods", namespace)
    return {pod["metadata"]["name"]: node for pod in pods if (node := pod["spec"].get("nodeName"))}
