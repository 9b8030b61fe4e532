"""The server is killed in the middle of binding, and starts again: nothing is done twice or forgotten."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.controlplane.client import Client
from tests.controlplane.manifests import pod_manifest
from tests.controlplane.plane import ControlPlane
from tests.e2e.extender import Extender
from tests.e2e.fault_proxy import Fault, FaultProxy
from tests.e2e.one_per_node import (
    ONE_PER_NODE,
    SINGLE,
    TAKEN,
    bind,
    check_one_each,
    placed,
    wait_placed,
)

pytestmark = pytest.mark.e2e

KILLS = 5
BATCH = 16
NODES = KILLS * BATCH
PODS = NODES + BATCH


def test_killed_in_the_middle_of_binds_and_started_again(cluster: ControlPlane, tmp_path: Path) -> None:
    for number in range(NODES):
        cluster.api.create_node(f"n{number}")
    bayplan = Extender(cluster.api, tmp_path, ONE_PER_NODE, kubeconfig=cluster.kubeconfig)

    started = time.monotonic()
    bound_at_kill = []
    with cluster.scheduler(extenders=[bayplan.entry(bind=True)]):
        for first in range(0, NODES, BATCH):
            with bayplan:
                before = len(placed(cluster))
                stream = threading.Thread(target=create_pods, args=(cluster, first))
                stream.start()
                wait_placed(cluster, before + 3)
                os.kill(bayplan.child.pid, signal.SIGKILL)
                assert bayplan.child.wait_ended() == -signal.SIGKILL
                stream.join()
                bound_at_kill.append(len(placed(cluster)))
        create_pods(cluster, NODES)
        with bayplan:
            wait_placed(cluster, NODES)
            told = check_one_each(cluster, nodes=NODES, waiting=PODS - NODES)

    print(
        f"\nkilled {KILLS} times, with {bound_at_kill} pods bound: {NODES} of {PODS} pods on {NODES} nodes,"
        f" one each, {told} Scheduled events, {PODS - NODES} wait with a reason;"
        f" {time.monotonic() - started:.1f} s"
    )


def test_bind_waits_for_the_first_list(cluster: ControlPlane, tmp_path: Path) -> None:
    """A pod was filtered before the restart and is bound after it: an empty view would allow anything."""
    cluster.api.create_node("n1")
    cluster.api.create_pod("first", labels=SINGLE, node_name="n1")
    second = cluster.api.create_pod("second", labels=SINGLE)

    def hold_pods(method: str, path: str) -> Fault:
        return "held" if path.startswith("/api/v1/pods?") else ""

    with FaultProxy(cluster, tmp_path) as proxy:
        proxy.decide = hold_pods
        with Extender(
            cluster.api, tmp_path, ONE_PER_NODE, kubeconfig=proxy.kubeconfig, ready_at="/livez"
        ) as bayplan:
            early = [bind(bayplan, second, "n1") for _ in range(3)]
            proxy.released.set()
            bayplan.wait_ready()
            late = bind(bayplan, second, "n1")

    assert early == ["the cluster is not listed yet"] * 3
    assert TAKEN in late
    assert cluster.api.node_of("second") is None
    print(f"\n{len(early)} binds before the first list were refused, and one after it: {late}")


def create_pods(cluster: ControlPlane, first: int) -> None:
    """A batch, on a connection of its own."""
    with Client(cluster.server, cluster.ca.cert, token=cluster.admin_token) as client:
        for number in range(first, first + BATCH):
            client.create("pods", pod_manifest(f"p{number}", cpu="10m", labels=SINGLE))
