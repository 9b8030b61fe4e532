"""A large cluster: how long the first list takes, and what the server weighs afterwards."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.controlplane.client import Client
from tests.controlplane.manifests import node_manifest, pod_manifest
from tests.controlplane.plane import ControlPlane
from tests.e2e.extender import Extender
from tests.e2e.one_per_node import ONE_PER_NODE

pytestmark = [pytest.mark.e2e, pytest.mark.big]

NODES = int(os.environ.get("BAYPLAN_BIG_NODES", "5000"))
PODS_PER_NODE = 10
CONNECTIONS = 8


@pytest.mark.timeout(1200)
def test_first_sync_of_a_large_cluster(control_plane: ControlPlane, tmp_path: Path) -> None:
    # One of its own: emptying it again would take as long as filling it.
    with ControlPlane(control_plane.binaries) as plane:
        began = time.monotonic()
        in_parallel(plane, NODES, create_node)
        in_parallel(plane, NODES * PODS_PER_NODE, create_pod)
        filled = time.monotonic() - began

        seconds = []
        bayplan = Extender(plane.api, tmp_path, ONE_PER_NODE, kubeconfig=plane.kubeconfig)
        for _ in range(3):
            began = time.monotonic()
            with bayplan:
                seconds.append(time.monotonic() - began)
                seen = bayplan.metric("bayplan_view_nodes"), bayplan.metric("bayplan_view_pods")
                resident = memory_mb(bayplan.child.pid, "VmRSS")
                peak = memory_mb(bayplan.child.pid, "VmHWM")

    assert seen == (NODES, NODES * PODS_PER_NODE)
    print(
        f"\n{NODES} nodes and {NODES * PODS_PER_NODE} pods (created in {filled:.0f} s): ready"
        f" {', '.join(f'{each:.1f}' for each in seconds)} s after start;"
        f" RSS {resident:.0f} MB, at most {peak:.0f} MB"
    )


def create_node(client: Client, number: int) -> None:
    """One that looks like any other."""
    client.create("nodes", node_manifest(f"n{number}", labels={"rack": f"r{number % 50}"}))


def create_pod(client: Client, number: int) -> None:
    """One that is on its node already."""
    labels = {"app": f"app-{number % 500}"}
    manifest = pod_manifest(f"p{number}", cpu="100m", labels=labels, node_name=f"n{number % NODES}")
    client.create("pods", manifest)


def in_parallel(plane: ControlPlane, count: int, create: Callable[[Client, int], None]) -> None:
    """Create so many, on several connections at once."""

    def part(first: int) -> None:
        with Client(plane.server, plane.ca.cert, token=plane.admin_token) as client:
            for number in range(first, count, CONNECTIONS):
                create(client, number)

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        list(pool.map(part, range(CONNECTIONS)))


def memory_mb(pid: int, field: str) -> float:
    """What the kernel says about a process: VmRSS is now, VmHWM was the most."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise LookupError(field)
