"""A large cluster: how soon a killed server is ready again, and what it weighs."""

from __future__ import annotations

import os
import signal
import statistics
import time
from pathlib import Path

import pytest

from bench.state import MEMORY_BUDGET_MB, READY_BUDGET_SECONDS
from bench.state_followers import Bayplan, Start, started
from tests.controlplane.client import Client
from tests.controlplane.manifests import node_manifest, pod_manifest
from tests.controlplane.parallel import in_parallel
from tests.controlplane.plane import ControlPlane
from tests.e2e.extender import Extender
from tests.e2e.one_per_node import ONE_PER_NODE

pytestmark = [pytest.mark.e2e, pytest.mark.big]

NODES = int(os.environ.get("BAYPLAN_BIG_NODES", "5000"))
PODS_PER_NODE = (10, 30)
STARTS = 3


@pytest.mark.timeout(1800)
def test_first_sync_of_a_large_cluster(control_plane: ControlPlane, tmp_path: Path) -> None:
    # One of its own: emptying it again would take as long as filling it.
    with ControlPlane(control_plane.binaries) as plane:
        began = time.monotonic()
        in_parallel(plane, range(NODES), create_node)
        bayplan = Extender(plane.api, tmp_path, ONE_PER_NODE, kubeconfig=plane.kubeconfig)
        there = 0
        for each in PODS_PER_NODE:
            in_parallel(plane, range(there, NODES * each), create_pod)
            there = NODES * each
            filled = time.monotonic() - began
            starts = [start_and_kill(bayplan) for _ in range(STARTS)]

            assert {(start.nodes, start.pods) for start in starts} == {(NODES, there)}
            assert max(start.peak_mb for start in starts) < MEMORY_BUDGET_MB
            # The API server and etcd work on the same cores; a single start may meet them at their busiest.
            usual = statistics.median(start.seconds for start in starts)
            print(
                f"\n{NODES} nodes and {there} pods (there after {filled:.0f} s): killed and ready again in"
                f" {', '.join(f'{start.seconds:.1f}' for start in starts)} s;"
                f" RSS {max(start.resident_mb for start in starts):.0f} MB,"
                f" at most {max(start.peak_mb for start in starts):.0f} MB"
            )
            assert usual < READY_BUDGET_SECONDS.get(there, usual + 1)


def start_and_kill(bayplan: Extender) -> Start:
    """Start the server, see what it is like when it is ready, and end it without a word."""
    follower = Bayplan(bayplan)
    with started(follower) as start:
        os.kill(follower.child.pid, signal.SIGKILL)
        follower.child.wait_ended()
    return start


def create_node(client: Client, number: int) -> None:
    """One that looks like any other."""
    client.create("nodes", node_manifest(f"n{number}", labels={"rack": f"r{number % 50}"}))


def create_pod(client: Client, number: int) -> None:
    """One that is on its node already."""
    labels = {"app": f"app-{number % 500}"}
    manifest = pod_manifest(f"p{number}", cpu="100m", labels=labels, node_name=f"n{number % NODES}")
    client.create("pods", manifest)
