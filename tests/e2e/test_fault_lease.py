"""Somebody deletes the Lease, and a server starts that never saw it: one at a time binds all the same."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.after_fault import wait_settled
from tests.e2e.second_scheduler import NAME, SecondScheduler
from tests.e2e.test_schedule import create_pods, wait_bound
from tests.e2e.two_schedulers import LEASE_SECONDS, leads, scheduled, short_lease

pytestmark = pytest.mark.e2e

PODS = 60


@pytest.fixture
def schedulers(cluster: ControlPlane, tmp_path: Path) -> tuple[SecondScheduler, SecondScheduler]:
    """One for a cluster with a Lease, and one that takes what it finds."""
    for number in range(4):
        cluster.api.create_node(f"n{number}", cpu="64", pods="110")
    flag = short_lease(tmp_path)
    first, second = (
        SecondScheduler(
            cluster.api, tmp_path, kubeconfig=cluster.kubeconfig, name=name, flags=[flag], lease=lease
        )
        for name, lease in (("first", NAME), ("second", ""))
    )
    return first, second


def test_the_holder_makes_it_anew_and_goes_on(
    cluster: ControlPlane, schedulers: tuple[SecondScheduler, SecondScheduler]
) -> None:
    first, second = schedulers
    with first:
        wait_until(lambda: leads(first), 30, what="the first leads")
        create_pods(cluster, PODS, cpu="100m", prefix="before")
        cluster.api.delete("leases", NAME)
        with second:
            until = time.monotonic() + 2 * LEASE_SECONDS
            while time.monotonic() < until:
                assert not leads(second)
                time.sleep(0.1)
            create_pods(cluster, PODS, cpu="100m", prefix="after")
            wait_bound(cluster, 2 * PODS)

            assert leads(first)
            assert (scheduled(first), scheduled(second)) == (2 * PODS, 0)
            wait_settled(cluster, first)


def test_a_holder_that_stands_still_is_waited_out(
    cluster: ControlPlane, schedulers: tuple[SecondScheduler, SecondScheduler]
) -> None:
    first, second = schedulers
    with first:
        wait_until(lambda: leads(first), 30, what="the first leads")
        with first.child.frozen():
            cluster.api.delete("leases", NAME)
            deleted = time.monotonic()
            with second:
                wait_until(lambda: leads(second), 30, what="the second leads", poll_seconds=0.1)
                waited = time.monotonic() - deleted
        assert waited >= LEASE_SECONDS
        assert not leads(first), "it knows by its own clock"
    print(f"\nthe Lease was deleted under a holder that stands still: the next one led {waited:.1f} s later")
