"""Two hundred pods at once, through every verb."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.extender import Extender, Json

pytestmark = pytest.mark.e2e

PODS = 200
NODES = 20

EVEN_AND_ROOMY = """
    import bayplan

    ODD = bayplan.Reason("odd nodes are for others")

    @bayplan.filter
    def even(pod, node):
        if int(node.name[-1]) % 2:
            return ODD

    @bayplan.score(range=(0, 8000))
    def room(pod, nodes):
        return nodes["cpu.free"]
"""


def test_a_burst_is_bound_once_and_only_where_allowed(cluster: ControlPlane, tmp_path: Path) -> None:
    api = cluster.api
    for number in range(NODES):
        api.create_node(f"n{number}")

    with Extender(api, tmp_path, EVEN_AND_ROOMY, kubeconfig=cluster.kubeconfig) as bayplan:
        for number in range(PODS):
            api.create_pod(f"p{number}", cpu="100m")
        # They all wait when kube-scheduler comes.
        with cluster.scheduler(extenders=[bayplan.entry(bind=True)]):
            wait_until(lambda: len(scheduled(cluster)) >= PODS, 60, what="every pod has its event")

        events = scheduled(cluster)
        assert Counter(event["involvedObject"]["name"] for event in events) == Counter(
            f"p{number}" for number in range(PODS)
        )
        nodes = {pod["spec"].get("nodeName") for pod in api.items("pods")}
        assert nodes <= {f"n{number}" for number in range(0, NODES, 2)}
        for verb in ("filter", "prioritize", "bind"):
            ok, every = bayplan.requests(verb, result="ok"), bayplan.requests(verb)
            assert ok == every == PODS, f"{verb}\n{bayplan.child.log_tail()}"

    times = sorted(datetime.fromisoformat(event["eventTime"]) for event in events)
    seconds = (times[-1] - times[0]).total_seconds()
    print(f"\n{PODS} pods bound in {seconds:.2f} s: {PODS / seconds:.0f} pods/s")


def scheduled(cluster: ControlPlane) -> list[Json]:
    """The events that say that a pod was bound."""
    return cluster.api.items("events", fields="reason=Scheduled")
