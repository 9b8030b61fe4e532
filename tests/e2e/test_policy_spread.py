"""Spread on the real kube-scheduler: limits hold however many pods come at once, and preemption helps."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.extender import Extender

pytestmark = pytest.mark.e2e

WEB = {"app": "web"}
ALL_WEB = {"podSelector": {"matchLabels": WEB}}


def extender(cluster: ControlPlane, directory: Path, **args: Any) -> Extender:
    config = {"policies": [{"use": "Spread", "args": {"pods": ALL_WEB, **args}}]}
    return Extender(cluster.api, directory, "", kubeconfig=cluster.kubeconfig, config=config)


def test_no_rack_gets_more_than_its_share_and_the_rest_wait_with_a_reason(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    api = cluster.api
    for number in range(6):
        api.create_node(f"n{number}", labels={"rack": f"r{number % 3}"})
    api.create_node("no-rack")
    for number in range(10):
        api.create_pod(f"p{number}", cpu="100m", labels=WEB)

    with (
        extender(cluster, tmp_path, by="rack", maxPerDomain=2) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry(bind=True)]),
    ):
        wait_until(lambda: len(placed(cluster)) == 6, 60, what="three racks have two pods each")
        waiting = next(f"p{number}" for number in range(10) if f"p{number}" not in placed(cluster))
        said = api.wait_event(
            waiting, "FailedScheduling", containing="6 the rack has 2 of these pods already"
        )
        assert "1 node lacks label rack" in said
        assert Counter(int(node[1:]) % 3 for node in placed(cluster).values()) == {0: 2, 1: 2, 2: 2}

        api.create_pod("other", cpu="100m", labels={"app": "db"})
        api.wait_bound("other")


def test_pods_are_even_over_zones_of_different_size(cluster: ControlPlane, tmp_path: Path) -> None:
    api = cluster.api
    zones = {"n0": "a", "n1": "b", "n2": "b", "n3": "c", "n4": "c", "n5": "c"}
    for name, zone in zones.items():
        api.create_node(name, labels={"topology.kubernetes.io/zone": zone})
    for number in range(9):
        api.create_pod(f"p{number}", cpu="100m", labels=WEB)

    with (
        extender(cluster, tmp_path, by="zone", maxSkew=1) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry(bind=True)]),
    ):
        wait_until(lambda: len(placed(cluster)) == 9, 90, what="every pod has a node")

        assert Counter(zones[node] for node in placed(cluster).values()) == {"a": 3, "b": 3, "c": 3}


def test_nobody_is_evicted_from_a_rack_that_would_still_be_full(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    api = cluster.api
    api.create_priority_class("urgent", 1000)
    api.create_priority_class("low", 1)
    api.create_priority_class("lower", 0)
    api.create_node("helps", cpu="1", labels={"rack": "r1"})
    api.create_node("does-not", cpu="1", labels={"rack": "r2"})
    api.create_node("cordoned", cpu="1", labels={"rack": "r2"}, unschedulable=True)
    api.create_pod("web-1", cpu="1", node_name="helps", labels=WEB, priority_class="low")
    api.create_pod("web-2", cpu="1", node_name="cordoned", labels=WEB, priority_class="low")
    # kube-scheduler alone would rather evict this one: its priority is the lowest.
    api.create_pod("db", cpu="1", node_name="does-not", labels={"app": "db"}, priority_class="lower")

    with (
        extender(cluster, tmp_path, by="rack", maxPerDomain=1) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry(bind=True)]),
    ):
        api.create_pod("urgent", cpu="1", labels=WEB, priority_class="urgent")

        assert api.wait_bound("urgent") == "helps"
        assert api.find("pods", "web-1") is None
        assert api.find("pods", "db") is not None
        assert "dropped node does-not: the rack has 1 of these pods already" in bayplan.log()


def test_as_a_wish_nobody_waits_and_pods_are_even_all_the_same(cluster: ControlPlane, tmp_path: Path) -> None:
    api = cluster.api
    api.create_node("crowded", labels={"rack": "r1"})
    api.create_node("lonely", labels={"rack": "r2"})
    for number in range(3):
        api.create_pod(f"there-{number}", node_name="crowded", labels=WEB)
    # Without the wish the other node looks better: this one is nearly full.
    api.create_pod("db", cpu="6", memory="24Gi", node_name="lonely", labels={"app": "db"})

    with (
        extender(cluster, tmp_path, by="rack", maxSkew=1, whenUnsatisfiable="ScheduleAnyway") as bayplan,
        cluster.scheduler(extenders=[bayplan.entry(weight=50)]),
    ):
        api.create_pod("even", cpu="100m", labels=WEB)
        assert api.wait_bound("even") == "lonely"

        api.create_pod("large", cpu="4", labels=WEB)
        assert api.wait_bound("large") == "crowded"


def placed(cluster: ControlPlane) -> dict[str, str]:
    """Node by pod, of those that have one."""
    pods = cluster.api.items("pods")
    return {pod["metadata"]["name"]: node for pod in pods if (node := pod["spec"].get("nodeName"))}
