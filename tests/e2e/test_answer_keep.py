"""Answers cut down to the best nodes, and answers without reasons: what kube-scheduler makes of them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.asking import why
from tests.e2e.extender import Extender

pytestmark = pytest.mark.e2e

NODES = ["n1", "n2", "n3", "n4", "n5"]

AS_WANTED = """
    import bayplan

    @bayplan.filter
    def usable(pod, node):
        if node.labels.get("use") == "no":
            return "not to be used"

    @bayplan.score(range=(0, 100))
    def wanted(pod, node):
        return 100 if node.name == pod.labels.get("wants") else 0
"""

BREAKS_AT_BIND = """
    import bayplan

    @bayplan.score(range=(0, 100))
    def rank(pod, node):
        return int(node.labels.get("rank", 0))

    @bayplan.allocate
    def hand_out(pod, node):
        if node.labels.get("device") == "broken":
            return "the device is broken"
"""

BOTH_MODES = pytest.mark.parametrize(
    "names_only",
    [
        pytest.param(True, id="names only"),
        pytest.param(False, id="full nodes"),
    ],
)


def serve(
    cluster: ControlPlane, folder: Path, policy: str, *, names_only: bool = True, **answer: Any
) -> Extender:
    config = {"extender": {"answer": answer}}
    kubeconfig = cluster.kubeconfig if names_only else None
    return Extender(cluster.api, folder, policy, kubeconfig=kubeconfig, config=config)


@BOTH_MODES
def test_each_pod_goes_to_our_best_node_and_nobody_asks_for_scores(
    cluster: ControlPlane, tmp_path: Path, *, names_only: bool
) -> None:
    for name in NODES:
        cluster.api.create_node(name)
    cluster.api.create_node("unused", labels={"use": "no"})

    with (
        serve(cluster, tmp_path, AS_WANTED, names_only=names_only, keep=1) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry()]),
    ):
        for name in NODES:
            cluster.api.create_pod(f"for-{name}", cpu="100m", labels={"wants": name})

        assert {name: cluster.api.wait_bound(f"for-{name}") for name in NODES} == {n: n for n in NODES}
        assert bayplan.requests("filter", result="ok") == len(NODES)
        assert bayplan.requests("prioritize") == 0
        left_out = bayplan.metric("bayplan_nodes_total", verb="filter", verdict="left-out")
        assert left_out == len(NODES) * (len(NODES) - 1)
        told = why("for-n3", bayplan)
        assert (told["kept"], told["keptNodes"], told["passed"]) == (1, ["n3"], len(NODES))


def test_of_several_that_are_kept_kube_scheduler_chooses(cluster: ControlPlane, tmp_path: Path) -> None:
    for name in NODES:
        cluster.api.create_node(name)

    with (
        serve(cluster, tmp_path, AS_WANTED, keep=2) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry(weight=100)]),
    ):
        cluster.api.create_pod("p", cpu="100m", labels={"wants": "n4"})

        assert cluster.api.wait_bound("p") == "n4"
        assert bayplan.requests("prioritize", result="ok") == 1
        assert bayplan.metric("bayplan_nodes_total", verb="prioritize", verdict="passed") == 2


def test_a_node_on_which_every_bind_fails_is_turned_away_from(cluster: ControlPlane, tmp_path: Path) -> None:
    cluster.api.create_node("best", labels={"rank": "100", "device": "broken"})
    cluster.api.create_node("second", labels={"rank": "50", "device": "broken"})
    cluster.api.create_node("third", labels={"rank": "10"})

    with (
        serve(cluster, tmp_path, BREAKS_AT_BIND, keep=1) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry(bind=True)]),
    ):
        cluster.api.create_pod("p", cpu="100m")

        assert cluster.api.wait_bound("p") == "third"
        assert "the device is broken" in cluster.api.wait_event("p", "FailedScheduling")
        assert bayplan.requests("bind", result="error") == 2
        assert bayplan.requests("filter") == 3
        told = why("p", bayplan)
        assert (told["keptNodes"], told["turn"]) == (["third"], 2)


def test_a_pod_that_evicts_another_gets_the_node_that_it_was_promised(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    cluster.api.create_priority_class("high", 1000)
    for name in NODES[:3]:
        cluster.api.create_node(name, cpu="1")
    # Bound by hand, so that no node has room.
    for name in NODES[:3]:
        cluster.api.create_pod(f"low-{name}", cpu="900m", node_name=name)

    with (
        serve(cluster, tmp_path, AS_WANTED, keep=1) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry()]),
    ):
        cluster.api.create_pod("dear", cpu="900m", priority_class="high", labels={"wants": "n2"})

        node = cluster.api.wait_bound("dear")

        gone = {f"low-{name}" for name in NODES[:3]} - {
            pod["metadata"]["name"] for pod in cluster.api.items("pods")
        }
        assert gone == {f"low-{node}"}, "one pod was evicted, and for the node that was used"


_PROBES = itertools.count()


def refusal(cluster: ControlPlane) -> str:
    """What kube-scheduler says of another pod that has nowhere to go."""
    name = f"probe-{next(_PROBES)}"
    cluster.api.create_pod(name, cpu="100m")
    return cluster.api.wait_event(name, "FailedScheduling")


@BOTH_MODES
def test_reasons_that_are_left_out_while_a_node_passes_are_in_the_event_when_none_does(
    cluster: ControlPlane, tmp_path: Path, *, names_only: bool
) -> None:
    cluster.api.create_node("right")
    for number in range(3):
        cluster.api.create_node(f"unused-{number}", labels={"use": "no"})

    with (
        serve(cluster, tmp_path, AS_WANTED, names_only=names_only, failedNodes="whenNonePass") as bayplan,
        cluster.scheduler(extenders=[bayplan.entry()]),
    ):
        cluster.api.create_pod("placed", cpu="100m")
        assert cluster.api.wait_bound("placed") == "right"
        assert [(group["reason"], group["count"]) for group in why("placed", bayplan)["refused"]] == [
            ("not to be used", 3)
        ]

        cluster.api.delete("nodes", "right")
        # kube-scheduler may hear of a pod before it hears of the node: ask until it knows of three.
        wait_until(lambda: refusal(cluster).startswith("0/3 "), 30, what="kube-scheduler knows of 3 nodes")
        cluster.api.create_pod("waits", cpu="100m")
        message = cluster.api.wait_event("waits", "FailedScheduling")
        assert message.startswith("0/3 nodes are available: 3 not to be used.")
        assert cluster.api.wait_unschedulable("waits") == message
