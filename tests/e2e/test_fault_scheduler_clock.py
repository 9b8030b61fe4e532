"""The wall clock jumps, forwards and backwards: the Lease and the pauses go by a clock that cannot be set."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.after_fault import wait_settled
from tests.e2e.faketime_library import WallClock
from tests.e2e.second_scheduler import NAME, SecondScheduler
from tests.e2e.test_schedule import create_pods
from tests.e2e.two_apiservers import same_term
from tests.e2e.two_schedulers import LEASE_SECONDS, leader_first, leads, scheduled, short_lease

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

NODES, EACH, WAVE = 10, 30, 100


def test_both_wall_clocks_jump_and_nobody_else_leads(cluster: ControlPlane, tmp_path: Path) -> None:
    for number in range(NODES):
        cluster.api.create_node(f"n{number}", cpu="4", pods=EACH)
    flag = short_lease(tmp_path)
    clocks = {name: WallClock(tmp_path / f"{name}-clock") for name in ("first", "second")}
    first, second = (
        SecondScheduler(
            cluster.api, tmp_path, kubeconfig=cluster.kubeconfig, name=name, flags=[flag], env=clock.env
        )
        for name, clock in clocks.items()
    )
    with first, second:
        leader, other = leader_first(first, second)
        ours, theirs = clocks.values() if leader is first else reversed(clocks.values())
        term = lease(cluster)
        cluster.api.create_pod("big", cpu="64", scheduler_name=NAME)
        cluster.api.wait_unschedulable("big")
        for wave, (minutes, apart) in enumerate(((120, -40), (-40, 120))):
            stream = threading.Thread(
                target=create_pods, args=(cluster, WAVE), kwargs={"cpu": "100m", "prefix": f"w{wave}-"}
            )
            stream.start()
            ours.step(minutes)
            theirs.step(apart)
            wait_off(cluster, minutes)
            wait_renewed(cluster)
            stream.join()
            outcome = wait_settled(cluster, leader, other)
            assert len(outcome.bound) == (wave + 1) * WAVE
            assert (leads(leader), leads(other)) == (True, False)
        assert same_term(term, lease(cluster))
        assert [scheduled(leader), scheduled(other)] == [2 * WAVE, 0]
        # Its pauses were those of any pod: had they gone by the wall clock, it would wait for an hour or two.
        cluster.api.create_node("large", cpu="64")
        assert cluster.api.wait_bound("big") == "large"


def lease(cluster: ControlPlane) -> dict[str, str]:
    """What the Lease says."""
    spec: dict[str, str] = cluster.api.get("leases", NAME)["spec"]
    return spec


def wait_off(cluster: ControlPlane, minutes: int) -> None:
    """Wait until the holder writes a time that is so far from ours."""

    def off() -> bool:
        said = datetime.fromisoformat(lease(cluster)["renewTime"])
        return abs(said - datetime.now(UTC) - timedelta(minutes=minutes)) < timedelta(minutes=1)

    wait_until(off, 30, what="the clock of the leader has jumped")


def wait_renewed(cluster: ControlPlane) -> None:
    """Wait until the Lease would have run out long ago, had it not been renewed."""
    seen = {lease(cluster)["renewTime"]}

    def often() -> bool:
        seen.add(lease(cluster)["renewTime"])
        return len(seen) > 7

    wait_until(often, 4 * LEASE_SECONDS, what="the Lease is renewed for longer than it lasts")
