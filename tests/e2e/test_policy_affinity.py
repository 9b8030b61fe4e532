"""Affinity on the real kube-scheduler: rules hold however many pods come at once, in any order."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.extender import Extender

pytestmark = pytest.mark.e2e

DB, BATCH = {"app": "db"}, {"app": "batch"}


def extender(cluster: ControlPlane, directory: Path, *rules: dict[str, Any]) -> Extender:
    config = {"policies": [{"use": "Affinity", "args": {"rules": list(rules)}}]}
    return Extender(cluster.api, directory, "", kubeconfig=cluster.kubeconfig, config=config)


def test_customers_never_share_a_node_though_all_want_the_same(cluster: ControlPlane, tmp_path: Path) -> None:
    api = cluster.api
    # By kube-scheduler's own scores everybody wants the large one.
    api.create_node("large", cpu="1000", memory="1000Gi")
    for number in range(11):
        api.create_node(f"small-{number}")
    for number in range(12):
        api.create_pod(f"p{number}", cpu="1", labels={"customer": f"c{number % 3}"})

    with (
        extender(cluster, tmp_path, {"notWith": {"differentLabel": "customer"}}) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry(bind=True)]),
    ):
        wait_until(lambda: len(nodes_of(cluster)) == 12, 90, what="every pod has a node")

        customers = defaultdict(set)
        for pod, node in nodes_of(cluster).items():
            customers[node].add(int(pod[1:]) % 3)
        assert [node for node, found in customers.items() if len(found) > 1] == []


def test_pods_of_a_team_run_on_the_teams_nodes_only(cluster: ControlPlane, tmp_path: Path) -> None:
    api = cluster.api
    api.create_node("of-a", labels={"owner": "a"})
    api.create_node("of-b", labels={"owner": "b"})
    api.create_node("of-nobody")

    with (
        extender(
            cluster,
            tmp_path,
            {"podLabel": "team", "nodeLabel": "owner", "onMissing": {"pod": "refuse"}},
        ) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry()]),
    ):
        api.create_pod("p-a", labels={"team": "a"})
        api.create_pod("p-b", labels={"team": "b"})
        api.create_pod("p-nobody")
        api.create_pod("p-z", labels={"team": "z"})

        assert api.wait_bound("p-a") == "of-a"
        assert api.wait_bound("p-b") == "of-b"
        assert api.wait_bound("p-nobody") == "of-nobody"
        api.wait_event("p-z", "FailedScheduling", containing="3 node's owner does not suit the pod's team")


def test_a_job_that_keeps_together_starts_and_ends_up_in_one_rack(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    api = cluster.api
    for number in range(6):
        api.create_node(f"n{number}", labels={"rack": f"r{number % 3}"}, pods=3)
    for number in range(6):
        api.create_pod(f"p{number}", cpu="100m", labels={"job": "j"})

    with (
        extender(cluster, tmp_path, {"with": {"sameLabel": "job"}, "by": "rack"}) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry(bind=True)]),
    ):
        wait_until(lambda: len(nodes_of(cluster)) == 6, 90, what="every pod has a node")

        assert len({int(node[1:]) % 3 for node in nodes_of(cluster).values()}) == 1


def test_who_comes_later_keeps_away_from_those_who_want_to_be_alone(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    api = cluster.api
    api.create_node("n")
    rule = {
        "pods": {"podSelector": {"matchLabels": DB}},
        "notWith": {"podSelector": {"matchLabels": BATCH}},
        "reason": "a database is there",
    }

    with (
        extender(cluster, tmp_path, rule) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry(bind=True)]),
    ):
        api.create_pod("db", labels=DB)
        api.wait_bound("db")
        api.create_pod("batch", labels=BATCH)
        api.wait_event("batch", "FailedScheduling", containing="1 a database is there")

        api.create_node("another")
        assert api.wait_bound("batch") == "another"


def nodes_of(cluster: ControlPlane) -> dict[str, str]:
    """Node by pod, of those that have one."""
    pods = cluster.api.items("pods")
    return {pod["metadata"]["name"]: node for pod in pods if (node := pod["spec"].get("nodeName"))}
