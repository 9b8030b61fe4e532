"""ResourceLimits on the real kube-scheduler: caps hold however many pods come at once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.manifests import pod_manifest
from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.extender import Extender

pytestmark = pytest.mark.e2e

BATCH = {"tier": "batch"}
SLOTS = "example.com/slots"
OWNER = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "0-0-0", "controller": True}


def extender(cluster: ControlPlane, directory: Path, *limits: dict[str, Any]) -> Extender:
    config = {"policies": [{"use": "ResourceLimits", "args": {"limits": list(limits)}}]}
    return Extender(cluster.api, directory, "", kubeconfig=cluster.kubeconfig, config=config)


def test_a_burst_of_pods_gets_its_share_of_each_node_and_no_more(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    api = cluster.api
    for number in range(3):
        api.create_node(f"n{number}", cpu="4")
    for number in range(20):
        api.create_pod(f"p{number}", cpu="500m", labels=BATCH)
    limit = {"pods": {"podSelector": {"matchLabels": BATCH}}, "share": {"cpu": "50%"}}

    with (
        extender(cluster, tmp_path, limit) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry(bind=True)]),
    ):
        wait_until(lambda: len(placed(cluster)) == 12, 60, what="each node has four batch pods")
        waiting = next(f"p{number}" for number in range(20) if f"p{number}" not in placed(cluster))
        api.wait_event(
            waiting, "FailedScheduling", containing="3 these pods have their share of the node's cpu"
        )
        assert Counter(placed(cluster).values()) == {"n0": 4, "n1": 4, "n2": 4}

        api.create_pod("web", cpu="2")
        api.wait_bound("web")

        gone = next(iter(placed(cluster)))
        assert gone != "web"
        api.delete("pods", gone)
        wait_until(lambda: len(placed(cluster)) == 13, 60, what="another batch pod has the place")
        assert max(Counter(node for pod, node in placed(cluster).items() if pod != "web").values()) == 4


def test_room_is_kept_for_daemons_and_each_team_has_so_many_pods(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    api = cluster.api
    api.create_node("n", cpu="2")
    room = {"headroom": {"cpu": "500m"}}
    teams = {"pods": {"sameLabel": "team"}, "maxPods": 1}

    with (
        extender(cluster, tmp_path, room, teams) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry(bind=True)]),
    ):
        api.create_pod("red", cpu="1", labels={"team": "red"})
        assert api.wait_bound("red") == "n"

        api.create_pod("red-too", labels={"team": "red"})
        api.wait_event("red-too", "FailedScheduling", containing="1 the node has 1 of these pods already")
        api.create_pod("blue", cpu="600m", labels={"team": "blue"})
        api.wait_event("blue", "FailedScheduling", containing="1 too little cpu would be left")

        daemon = pod_manifest("daemon", cpu="1")
        daemon["metadata"]["ownerReferences"] = [OWNER]
        api.create("pods", daemon)
        assert api.wait_bound("daemon") == "n"


def test_a_resource_that_is_left_to_bayplan_can_be_overcommitted(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    api = cluster.api
    api.create_node("n", extended={SLOTS: "2"}, labels={"example.com/factor": "1.5"})
    limit = {"overcommit": {SLOTS: {"label": "example.com/factor"}}}

    with extender(cluster, tmp_path, limit) as bayplan:
        entry = bayplan.entry(bind=True)
        entry["managedResources"] = [{"name": SLOTS, "ignoredByScheduler": True}]
        with cluster.scheduler(extenders=[entry]):
            for number in range(3):
                api.create_pod(f"p{number}", requests={SLOTS: "1"})
                api.wait_bound(f"p{number}")
            api.create_pod("one-more", requests={SLOTS: "1"})

            api.wait_event("one-more", "FailedScheduling", containing=f"1 too little {SLOTS} would be left")


def placed(cluster: ControlPlane) -> dict[str, str]:
    """Node by pod, of those that have one."""
    pods = cluster.api.items("pods")
    return {pod["metadata"]["name"]: node for pod in pods if (node := pod["spec"].get("nodeName"))}
