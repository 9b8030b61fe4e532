"""Nodes are deleted under the scheduler, and come back smaller, while pods are on their way to them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.after_fault import used, wait_settled
from tests.e2e.second_scheduler import NAME, SecondScheduler
from tests.e2e.test_schedule import create_pods, wait_bound
from tests.e2e.two_schedulers import BindProxy, is_bind

pytestmark = pytest.mark.e2e

NODES, EACH, GONE = 10, 30, 4
GOING, SMALL = 6, 4


def test_nodes_are_deleted_in_mid_burst_and_come_back_smaller(cluster: ControlPlane, tmp_path: Path) -> None:
    names = [f"n{number}" for number in range(NODES)]
    gone, stay = names[:GONE], names[GONE:]
    for name in names:
        cluster.api.create_node(name, cpu="3", pods=EACH)
    first = len(stay) * EACH + 30
    stream = threading.Thread(target=create_pods, args=(cluster, first), kwargs={"cpu": "100m"})
    with SecondScheduler(cluster.api, tmp_path, kubeconfig=cluster.kubeconfig) as bayplan:
        stream.start()
        wait_bound(cluster, 40)
        for name in gone:
            cluster.api.delete("nodes", name)
        stream.join()
        outcome = wait_settled(cluster, bayplan)
        left_behind = {pod for pod, node in outcome.bound.items() if node in gone}
        assert left_behind, "some were on those nodes already"
        assert len(outcome.waiting) == max(0, first - len(left_behind) - len(stay) * EACH)

        # More pods than there is room for: nobody is sent where no node is.
        create_pods(cluster, len(stay) * EACH, cpu="100m", prefix="second")
        outcome = wait_settled(cluster, bayplan)
        assert {pod for pod, node in outcome.bound.items() if node in gone} == left_behind

        # What is bound by name is on the new node of that name from its first moment.
        before = used(cluster.api)
        for name in gone:
            cluster.api.create_node(name, cpu="1", pods=EACH)
        outcome = wait_settled(cluster, bayplan, overfull=gone)
        for name in gone:
            there, had = used(cluster.api)[name]["cpu"], before[name]["cpu"]
            assert there == max(1000, had), "filled up, and where it was too full already, left alone"

        # As the controller would that deletes pods of nodes that are gone.
        for pod in left_behind:
            cluster.api.delete("pods", pod)
        outcome = wait_settled(cluster, bayplan)
        assert len(outcome.bound) == len(stay) * EACH + GONE * 10
        assert outcome.waiting
    print(f"\n{GONE} of {NODES} nodes deleted in mid-burst with {len(left_behind)} pods on them")


def test_a_node_is_replaced_by_a_smaller_one_while_binds_to_it_are_under_way(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """The API server binds to any name: what is sent cannot be called back, but it must be counted."""
    cluster.api.create_node("replaced", cpu="8")
    with BindProxy(cluster, tmp_path) as proxy:
        with SecondScheduler(cluster.api, tmp_path, kubeconfig=proxy.kubeconfig) as bayplan:
            proxy.fault = lambda method, path: "held" if is_bind(method, path) else ""
            create_pods(cluster, GOING, cpu="100m", prefix="going")
            wait_until(lambda: len(proxy.binds) == GOING, 30, what="binds are under way")
            cluster.api.delete("nodes", "replaced")
            wait_until(lambda: bayplan.metric("bayplan_view_nodes") == 0, 30, what="the node is gone")
            cluster.api.create_pod("during", cpu="100m", scheduler_name=NAME)
            assert "no nodes available" in cluster.api.wait_unschedulable("during")
            cluster.api.create_node("replaced", cpu="8", pods=SMALL)
            cluster.api.create_node("other", cpu="8", pods=SMALL)
            proxy.fault = lambda _method, _path: ""
            cluster.api.create_pod("after", cpu="100m", scheduler_name=NAME)
            assert cluster.api.wait_bound("after") == cluster.api.wait_bound("during") == "other"
            proxy.released.set()
            outcome = wait_settled(cluster, bayplan, overfull=["replaced"])
            assert {pod for pod, node in outcome.bound.items() if node == "replaced"} == {
                f"going{number}" for number in range(GOING)
            }

            for number in range(GOING - SMALL + 1):
                cluster.api.delete("pods", f"going{number}")
            create_pods(cluster, 2 * SMALL, cpu="100m", prefix="last")
            outcome = wait_settled(cluster, bayplan)
            assert len(outcome.bound) == 2 * SMALL, "both are full, and neither is too full"
        proxy.check_bound_once()
