"""More pods than slices: every slice is owned once, and a slice that is freed finds a new owner."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.e2e.slices import (
    bayplan_with_slices,
    check_verified,
    create_owners,
    create_slices,
    owners,
    wait_owners,
    wait_told,
)

pytestmark = pytest.mark.e2e

SLICES_A_NODE = 10
CONNECTIONS = 4


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("nodes", "pods"),
    [
        pytest.param(4, 60, id="60 pods for 40 slices"),
        pytest.param(100, 2000, id="2000 pods for 1000 slices", marks=pytest.mark.chaos),
    ],
)
def test_slices_are_owned_once_and_given_back(
    cluster: ControlPlane, tmp_path: Path, nodes: int, pods: int
) -> None:
    slices = create_slices(cluster, nodes=nodes, each=SLICES_A_NODE)
    freed = slices // 4
    bayplan = bayplan_with_slices(cluster, tmp_path)
    with bayplan, cluster.scheduler(extenders=[bayplan.entry(bind=True)]):
        started = time.monotonic()
        create_at_once(cluster, pods)
        wait_owners(cluster, slices, 240)
        owned = time.monotonic() - started
        wait_told(cluster, waiting=pods - slices, nodes=nodes, timeout_seconds=120)
        told = time.monotonic() - started
        check_verified(bayplan)

        for name in list(owners(cluster))[:freed]:
            cluster.api.delete("pods", name)
        given_back = time.monotonic()
        wait_owners(cluster, slices, 120)
        again = time.monotonic() - given_back
        wait_told(cluster, waiting=pods - slices - freed, nodes=nodes, timeout_seconds=120)
        check_verified(bayplan)
        refused = bayplan.requests("bind", result="error")

    print(
        f"\n{pods} pods for {slices} slices: each owned once after {owned:.1f} s, {pods - slices} wait with a"
        f" reason after {told:.1f} s; {freed} given back, owned again in {again:.1f} s; {refused} binds were"
        " refused on the way"
    )


def create_at_once(cluster: ControlPlane, pods: int) -> None:
    """All pods, on several connections."""
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        list(
            pool.map(
                lambda first: create_owners(cluster, range(first, pods, CONNECTIONS)), range(CONNECTIONS)
            )
        )
