"""Pods that are alike, rules that look at nodes alone: kube-scheduler is answered at once, and rightly."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.asking import why
from tests.e2e.extender import Extender

pytestmark = pytest.mark.e2e

ON_SSD = """
    import bayplan

    DISK = bayplan.Label("disk")
    POINTS = bayplan.Label("points", int, default=0)
    NO_SSD = bayplan.Reason("node has no SSD", detail="its disk is {disk}")

    @bayplan.filter(reads="node")
    def on_ssd(nodes):
        return NO_SSD.where(nodes[DISK] != "ssd", disk=nodes[DISK])

    @bayplan.score(range=(0, 100), reads="node")
    def points(nodes):
        return nodes[POINTS]
"""
FIRST = """
    import bayplan

    @bayplan.filter
    def on_ssd(pod, node):
        if node.labels.get("disk") != "ssd":
            return "node has no SSD"

    @bayplan.score
    def points(pod, node):
        return int(node.labels.get("points", 0))
"""
EXPRESSION = {
    "policies": [
        {
            "name": "on-ssd",
            "filter": "node.metadata.labels[?'disk'].orValue('') == 'ssd'",
            "reason": "node has no SSD",
            "score": "double(node.metadata.labels[?'points'].orValue('0'))",
        }
    ]
}


_UIDS = itertools.count()


def known(bayplan: Extender, verb: str) -> float:
    return bayplan.metric("bayplan_known_answers_total", verb=verb)


def passed(bayplan: Extender, *names: str) -> list[str]:
    """The nodes that a pod may go to; it is of another kind than those that kube-scheduler asks for."""
    # Another one each time: a pod that comes again is told the next best.
    pod = {"metadata": {"name": "probe", "uid": str(next(_UIDS)), "labels": {"probe": "yes"}}}
    connection = http.client.HTTPConnection("127.0.0.1", bayplan.port, timeout=10)
    with contextlib.closing(connection):
        connection.request("POST", "/filter", json.dumps({"Pod": pod, "NodeNames": names}))
        told: list[str] = json.loads(connection.getresponse().read())["NodeNames"]
    return told


@pytest.mark.parametrize("keep", [pytest.param({}, id="all nodes"), pytest.param({"keep": 1}, id="the best")])
def test_pods_go_where_the_policies_want_them_before_and_after_a_node_has_changed(
    cluster: ControlPlane, tmp_path: Path, keep: dict[str, Any]
) -> None:
    cluster.api.create_node("slow", labels={"disk": "hdd", "points": "100"})
    cluster.api.create_node("good", labels={"disk": "ssd", "points": "10"})
    cluster.api.create_node("best", labels={"disk": "ssd", "points": "90"})
    config = {"extender": {"answer": keep}} if keep else {}
    with (
        Extender(cluster.api, tmp_path, ON_SSD, kubeconfig=cluster.kubeconfig, config=config) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry(weight=100)]),
    ):
        for number in range(6):
            cluster.api.create_pod(f"early-{number}", cpu="10m")
            assert cluster.api.wait_bound(f"early-{number}") == "best"
        assert known(bayplan, "filter") >= 3
        assert (known(bayplan, "prioritize") == 0) == bool(keep)

        told = why("early-5", bayplan)
        assert (told["offered"], told["passed"]) == (3, 2)
        assert [(group["reason"], group["nodes"]) for group in told["refused"]] == [
            ("node has no SSD", ["slow"])
        ]

        before = known(bayplan, "filter")
        cluster.api.patch("nodes", "best", {"metadata": {"labels": {"disk": "hdd"}}})
        # Our watch may tell of it a moment after the API server has answered.
        wait_until(lambda: passed(bayplan, "slow", "good", "best") == ["good"], 30, what="the node is seen")
        for number in range(6):
            cluster.api.create_pod(f"late-{number}", cpu="10m")
            assert cluster.api.wait_bound(f"late-{number}") == "good"
        assert known(bayplan, "filter") >= before + 3


@pytest.mark.parametrize(
    ("policy", "config"),
    [pytest.param("", EXPRESSION, id="expression"), pytest.param(FIRST, {}, id="first policy")],
)
def test_what_shows_what_it_reads_needs_no_promise(
    policy: str, config: dict[str, Any], cluster: ControlPlane, tmp_path: Path
) -> None:
    cluster.api.create_node("slow", labels={"disk": "hdd"})
    for name in ("a", "b"):
        cluster.api.create_node(name, labels={"disk": "ssd", "points": {"a": "1", "b": "7"}[name]})
    with (
        Extender(cluster.api, tmp_path, policy, kubeconfig=cluster.kubeconfig, config=config) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry(weight=100)]),
    ):
        for number in range(5):
            cluster.api.create_pod(f"pod-{number}", cpu="10m")
            assert cluster.api.wait_bound(f"pod-{number}") == "b"

        assert known(bayplan, "filter") >= 2
        assert known(bayplan, "prioritize") >= 2
