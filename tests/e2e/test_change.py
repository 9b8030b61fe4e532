"""A refused pod gets its chance when the cluster changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.e2e.extender import Extender

pytestmark = pytest.mark.e2e

SSD = """
    import bayplan

    @bayplan.filter
    def disk(pod, node):
        return None if node.labels.get("disk") == "ssd" else "no ssd"
"""


@pytest.mark.parametrize(
    "names_only",
    [
        pytest.param(True, id="names only, the cluster is known"),
        pytest.param(False, id="full nodes, no cluster is known"),
    ],
)
def test_a_label_that_comes_later_is_heeded(
    cluster: ControlPlane, tmp_path: Path, *, names_only: bool
) -> None:
    cluster.api.create_node("n1")
    extender = Extender(
        cluster.api,
        tmp_path,
        SSD,
        kubeconfig=cluster.kubeconfig if names_only else None,
    )
    with extender as bayplan, cluster.scheduler(extenders=[bayplan.entry()]):
        cluster.api.create_pod("p")
        cluster.api.wait_event("p", "FailedScheduling", containing="1 no ssd")
        cluster.api.patch("nodes", "n1", {"metadata": {"labels": {"disk": "ssd"}}})

        assert cluster.api.wait_bound("p", 8) == "n1"


FOR_ITS_OWN_POD = """
    import bayplan

    @bayplan.filter
    def label(pod, node):
        return None if node.labels.get("for") == pod.name else "the node is for another pod"
"""


def test_no_pod_is_left_behind_when_kube_scheduler_hears_of_a_change_first(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    rounds = 40
    cluster.api.create_node("n1")
    with (
        Extender(cluster.api, tmp_path, FOR_ITS_OWN_POD, kubeconfig=cluster.kubeconfig) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry()]),
    ):
        for number in range(rounds):
            name = f"p{number}"
            cluster.api.create_pod(name)
            cluster.api.wait_event(name, "FailedScheduling", containing="the node is for another pod")
            cluster.api.patch("nodes", "n1", {"metadata": {"labels": {"for": name}}})

            assert cluster.api.wait_bound(name, 20) == "n1"
            cluster.api.delete("pods", name)
    print(f"\n{rounds} labels changed under a waiting pod: none was left behind")
