"""`bayplan state verify` on a server that runs: no drift after a busy minute, and a readable no."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.extender import COMMAND, Extender
from tests.e2e.slices import (
    MEMORY,
    SLICE,
    bayplan_with_slices,
    check_verified,
    create_owners,
    create_slices,
    owners,
    wait_owners,
    wait_told,
)

pytestmark = pytest.mark.e2e

ANYWHERE = """
    import bayplan

    @bayplan.filter
    def anywhere(pod, nodes):
        return None
"""


def verify(port: int) -> subprocess.CompletedProcess[str]:
    command = [str(COMMAND), "state", "verify", f"--server=http://127.0.0.1:{port}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_there_is_no_drift_after_pods_and_nodes_came_and_went(cluster: ControlPlane, tmp_path: Path) -> None:
    api = cluster.api
    for number in range(10):
        api.create_node(f"n{number}")
    with (
        Extender(api, tmp_path, ANYWHERE, kubeconfig=cluster.kubeconfig) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry(bind=True)]),
    ):
        for number in range(40):
            api.create_pod(f"p{number}", cpu="100m")
        wait_until(
            lambda: all(p["spec"].get("nodeName") for p in api.items("pods")), 60, what="all are bound"
        )
        for number in range(0, 40, 3):
            api.delete("pods", f"p{number}")
        api.delete("nodes", "n3")

        ended = verify(bayplan.ops_port)

        assert ended.returncode == 0, ended.stdout + ended.stderr + bayplan.log()
        assert "ok: the view is true; 9 nodes, 26 pods" in ended.stdout
        assert bayplan.metric("bayplan_view_drift") == 0


def test_a_server_without_a_cluster_says_that_there_is_nothing_to_verify(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    with Extender(cluster.api, tmp_path, ANYWHERE) as bayplan:
        ended = verify(bayplan.ops_port)

    assert ended.returncode == 1
    assert "watches no cluster" in ended.stderr


def test_a_pod_that_somebody_else_bound_is_flagged(cluster: ControlPlane, tmp_path: Path) -> None:
    """It holds a managed resource, and nobody knows which device: it counts on each, and it is named."""
    create_slices(cluster, nodes=1, each=2)
    cluster.api.create_pod("strayed", limits={MEMORY: str(SLICE)}, node_name="n0")

    with bayplan_with_slices(cluster, tmp_path) as bayplan:
        bayplan.wait_metric(1, "bayplan_unaccounted_pods")
        ended = verify(bayplan.ops_port)

    assert ended.returncode == 0, ended.stderr
    assert "unaccounted pod default/strayed was bound by somebody else" in ended.stdout
    assert "pod default/strayed holds a managed resource" in bayplan.log()


def test_a_pod_that_names_another_slice_than_it_got_frees_none(cluster: ControlPlane, tmp_path: Path) -> None:
    create_slices(cluster, nodes=1, each=2)
    bayplan = bayplan_with_slices(cluster, tmp_path)
    with bayplan, cluster.scheduler(extenders=[bayplan.entry(bind=True)]):
        create_owners(cluster, range(2))
        given = wait_owners(cluster, 2)
        named = f'{{"{MEMORY}":{{"{given["p1"][1]}":{SLICE}}}}}'
        cluster.api.patch("pods", "p0", {"metadata": {"annotations": {"bayplan.dev/allocation": named}}})
        bayplan.wait_metric(1, "bayplan_rewritten_allocations")

        create_owners(cluster, range(2, 3))
        wait_told(cluster, waiting=1, nodes=1)
        check_verified(bayplan)

        cluster.api.delete("pods", "p0")
        wait_until(lambda: owners(cluster).get("p2") == given["p0"], 60, what="the slice has a new owner")
        assert bayplan.metric("bayplan_rewritten_allocations") == 0
    assert "pod default/p0 was given" in bayplan.log()
