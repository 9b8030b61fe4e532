"""Answers about so many nodes that their lines lie side by side: a real kube-scheduler reads them all."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayplan.snapshot.lookup import MANY
from tests.controlplane.plane import ControlPlane
from tests.e2e.extender import Extender

pytestmark = pytest.mark.e2e

NODES = MANY + 100
BEST = {"node-7", f"node-{NODES - 1}"}
PODS = 12
POLICY = """
    import bayplan

    POINTS = bayplan.Label("points", int, default=40)

    @bayplan.score(range=(0, 100){promise})
    def points(nodes):
        return nodes[POINTS]
"""


@pytest.mark.parametrize("promise", [', reads="cluster"', ""], ids=["asked", "known"])
def test_the_best_of_many_nodes_get_the_pods(promise: str, cluster: ControlPlane, tmp_path: Path) -> None:
    api = cluster.api

    for name in (f"node-{number}" for number in range(NODES)):
        api.create_node(name, labels={"points": "100"} if name in BEST else {})
    policy = POLICY.format(promise=promise)
    with Extender(api, tmp_path, policy, kubeconfig=cluster.kubeconfig) as bayplan:
        entry = bayplan.entry(weight=100)
        with cluster.scheduler(extenders=[entry], percentage_of_nodes_to_score=100):
            places = set()
            for number in range(PODS):
                api.create_pod(f"p{number}", cpu="10m")
                places.add(api.wait_bound(f"p{number}"))

        assert places == BEST
        known = bayplan.metric("bayplan_known_answers_total", verb="prioritize")
        assert bool(known) == (not promise)
        assert bayplan.metric("bayplan_requests_total", verb="prioritize", result="ok") >= PODS
