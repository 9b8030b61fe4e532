"""Rules without code on the real kube-scheduler: a filter, a score and a reason that people read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.e2e.extender import Extender

pytestmark = pytest.mark.e2e

CONFIG = {
    "policies": [
        {
            "name": "same-rack",
            "filter": "node.metadata.labels[?'rack'].orValue('') == pod.metadata.labels[?'rack'].orValue('')",
            "reason": "rack differs",
        },
        {"name": "cheap", "score": "-double(node.metadata.labels[?'price'].orValue('0'))"},
        {"name": "keep-prod", "protect": "victim.metadata.labels[?'tier'].orValue('') == 'prod'"},
    ]
}


@pytest.mark.parametrize("names_only", [pytest.param(True, id="names"), pytest.param(False, id="full nodes")])
def test_a_pod_goes_to_the_cheapest_node_of_its_rack(
    cluster: ControlPlane, tmp_path: Path, *, names_only: bool
) -> None:
    api = cluster.api
    # kube-scheduler itself prefers the large one.
    api.create_node("large", cpu="64", memory="256Gi", labels={"rack": "a", "price": "0.9"})
    api.create_node("cheap", cpu="2", memory="4Gi", labels={"rack": "a", "price": "0.1"})
    api.create_node("elsewhere", labels={"rack": "b", "price": "0.0"})
    api.create_node("nowhere")

    kubeconfig = cluster.kubeconfig if names_only else None
    extender = Extender(api, tmp_path, "", kubeconfig=kubeconfig, config=CONFIG)
    with extender as bayplan, cluster.scheduler(extenders=[bayplan.entry(weight=50)]):
        api.create_pod("of-a", cpu="1", labels={"rack": "a"})
        api.create_pod("of-b", cpu="1", labels={"rack": "b"})
        api.create_pod("of-none", cpu="1")
        api.create_pod("of-z", cpu="1", labels={"rack": "z"})

        assert api.wait_bound("of-a") == "cheap"
        assert api.wait_bound("of-b") == "elsewhere"
        assert api.wait_bound("of-none") == "nowhere"
        api.wait_event("of-z", "FailedScheduling", containing="4 rack differs")
        assert bayplan.metric("bayplan_policy_failures_total") == 0


def test_a_victim_that_an_expression_protects_stays(cluster: ControlPlane, tmp_path: Path) -> None:
    api = cluster.api
    for number, name in enumerate(["prod", "test"]):
        # kube-scheduler would rather evict from the first one: the priority there is lower.
        api.create_priority_class(name, number + 1)
        api.create_node(f"of-{name}", cpu="1")
        api.create_pod(name, cpu="1", node_name=f"of-{name}", labels={"tier": name}, priority_class=name)
        api.set_phase(name, "Running")
    api.create_priority_class("urgent", 1000)

    extender = Extender(api, tmp_path, "", kubeconfig=cluster.kubeconfig, config=CONFIG)
    with extender as bayplan, cluster.scheduler(extenders=[bayplan.entry()]):
        api.create_pod("urgent", cpu="1", priority_class="urgent")

        assert api.wait_bound("urgent") == "of-test"
        assert api.node_of("prod") == "of-prod"
