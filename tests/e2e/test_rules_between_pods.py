"""Rules between pods hold when many pods are bound at once: bind is where they are decided."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.extender import Extender

pytestmark = pytest.mark.e2e

PLACES = 60

ONE_PER_NODE = """
    import bayplan

    APP = bayplan.PodLabel("app")
    TAKEN = bayplan.Reason("another one is on the node", preemptible=True)

    @bayplan.filter(recheck=True)
    def alone(pod, nodes):
        return TAKEN.where(nodes.count(APP.same_as(pod)) > 0)

    @bayplan.score
    def everybody_wants_the_same(pod, node):
        return -int(node.name[1:])
"""

AT_MOST_TWO_IN_A_RACK = """
    import bayplan

    RACK, APP = bayplan.Label("rack"), bayplan.PodLabel("app")
    FULL = bayplan.Reason("the rack has two")

    @bayplan.filter(recheck=True)
    def two_in_a_rack(pod, nodes):
        return FULL.where(nodes.count(APP.same_as(pod), by=RACK) >= 2)
"""


def test_one_pod_per_node_though_all_want_the_same_node(cluster: ControlPlane, tmp_path: Path) -> None:
    api = cluster.api
    for number in range(PLACES):
        api.create_node(f"n{number}")
        api.create_pod(f"p{number}", cpu="100m", labels={"app": "single"})

    with (
        Extender(api, tmp_path, ONE_PER_NODE, kubeconfig=cluster.kubeconfig) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry(bind=True, weight=50)]),
    ):
        wait_until(lambda: len(placed(cluster)) == PLACES, 90, what="every pod has a node")

        assert max(Counter(placed(cluster).values()).values()) == 1
        refused = bayplan.requests("bind", result="error")
        print(f"\n{PLACES} pods on {PLACES} nodes, one each; {refused} binds were refused on the way")


def test_a_limit_per_rack_holds_and_the_rest_wait_with_a_reason(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    api = cluster.api
    for number in range(12):
        api.create_node(f"n{number}", labels={"rack": f"r{number % 3}"})
    for number in range(10):
        api.create_pod(f"p{number}", cpu="100m", labels={"app": "few"})

    with (
        Extender(api, tmp_path, AT_MOST_TWO_IN_A_RACK, kubeconfig=cluster.kubeconfig) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry(bind=True)]),
    ):
        wait_until(lambda: len(placed(cluster)) == 6, 60, what="three racks have two pods each")
        waiting = next(f"p{number}" for number in range(10) if f"p{number}" not in placed(cluster))
        api.wait_event(waiting, "FailedScheduling", containing="12 the rack has two")

        racks = Counter(f"r{int(node[1:]) % 3}" for node in placed(cluster).values())
        assert racks == {"r0": 2, "r1": 2, "r2": 2}

        # One goes, and one of those who wait takes its place.
        first = next(iter(placed(cluster)))
        api.delete("pods", first)
        wait_until(lambda: len(placed(cluster)) == 6, 60, what="the place is taken again")
        assert first not in placed(cluster)


def placed(cluster: ControlPlane) -> dict[str, str]:
    """Node by pod, of those that have one."""
    pods = cluster.api.items("pods")
    return {pod["metadata"]["name"]: node for pod in pods if (node := pod["spec"].get("nodeName"))}
