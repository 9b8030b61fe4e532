"""Many pods, exactly as many as fit, and the leader is killed on the way: the other one places the rest."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.controlplane.client import Client
from tests.controlplane.manifests import node_manifest, pod_manifest
from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.after_fault import wait_settled
from tests.e2e.second_scheduler import NAME, SecondScheduler
from tests.e2e.two_schedulers import leader_first, leads, scheduled, short_lease

pytestmark = pytest.mark.e2e

EACH = 5
CONNECTIONS = 4
ALL_SECONDS = 200.0
BINDS_AT_ONCE = 100
"""As many as `parallelBinds` allows: what a leader may have sent when it is killed."""


def test_500_pods_on_100_nodes(cluster: ControlPlane, tmp_path: Path) -> None:
    change_leaders(cluster, tmp_path, nodes=100, flags=[short_lease(tmp_path)])


@pytest.mark.big
@pytest.mark.timeout(1200)
def test_5000_pods_on_1000_nodes(control_plane: ControlPlane, tmp_path: Path) -> None:
    # One of its own: emptying it again would take as long as filling it.
    with ControlPlane(control_plane.binaries) as plane:
        change_leaders(plane, tmp_path, nodes=1000, flags=[])


def change_leaders(plane: ControlPlane, directory: Path, *, nodes: int, flags: list[str]) -> None:
    """Kill the leader when a third of the pods is placed; in the end every place is taken, once."""
    pods = nodes * EACH
    first, second = (
        SecondScheduler(plane.api, directory, kubeconfig=plane.kubeconfig, name=name, flags=flags)
        for name in ("first", "second")
    )
    in_parallel(plane, pods, lambda client, number: client.create("pods", pod(number)))
    with first, second:
        leader, other = leader_first(first, second)
        # All of them wait: the burst begins with the nodes.
        began = time.monotonic()
        in_parallel(plane, nodes, lambda client, number: client.create("nodes", node(number)))
        wait_until(lambda: scheduled(leader) >= pods / 3, ALL_SECONDS, what="a third is placed")
        leader.kill()
        killed = time.monotonic()
        # What it had sent when it was killed may still be on its way.
        done = pods - unplaced(plane)
        assert pods / 3 <= done < pods
        wait_until(lambda: scheduled(other) > 0, 60, what="the other goes on", explain=other.child.log_tail)
        gap = time.monotonic() - killed
        wait_until(
            lambda: not unplaced(plane),
            ALL_SECONDS,
            what="the rest is placed",
            explain=other.child.log_tail,
        )
        ended = time.monotonic()
        outcome = wait_settled(plane, other)
        assert (len(outcome.bound), outcome.waiting) == (pods, {})
        assert pods - done - BINDS_AT_ONCE <= scheduled(other) <= pods - done, "each by one of the two"
        assert leads(other)
    print(
        f"\n{pods} pods on {nodes} nodes: {done} placed in {killed - began:.1f} s, leader killed, the other"
        f" goes on {gap:.1f} s later, the last one is placed after {ended - began:.1f} s in all"
    )


def unplaced(plane: ControlPlane) -> int:
    """How many pods have no node yet."""
    return len(plane.api.items("pods", fields="spec.nodeName="))


def in_parallel(plane: ControlPlane, count: int, make: Callable[[Client, int], object]) -> None:
    """Make many objects, over several connections."""

    def some(start: int) -> None:
        with Client(plane.server, plane.ca.cert, token=plane.admin_token) as client:
            for number in range(start, count, CONNECTIONS):
                make(client, number)

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        list(pool.map(some, range(CONNECTIONS)))


def node(number: int) -> dict[str, object]:
    """A node for `EACH` pods, by both counts."""
    return node_manifest(f"n{number}", cpu="8", pods=EACH)


def pod(number: int) -> dict[str, object]:
    """A pod that is a fifth of a node."""
    return pod_manifest(f"p{number}", cpu="1600m", memory="64Mi", scheduler_name=NAME)
