"""The API server is away for half a minute, or etcd behind it is frozen, in mid-burst."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.after_fault import wait_settled
from tests.e2e.second_scheduler import SecondScheduler
from tests.e2e.test_schedule import create_pods
from tests.e2e.two_schedulers import leader_first, leads, scheduled, short_lease

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

NODES, EACH, PODS = 10, 50, 510
AWAY_SECONDS, MAX_AGE_SECONDS = 30, 20


def test_the_api_server_is_away_for_half_a_minute(cluster: ControlPlane, tmp_path: Path) -> None:
    flag = short_lease(tmp_path, maxAge=f"{MAX_AGE_SECONDS}s")
    first, second = (
        SecondScheduler(cluster.api, tmp_path, kubeconfig=cluster.kubeconfig, name=name, flags=[flag])
        for name in ("first", "second")
    )
    create_pods(cluster, PODS, cpu="80m")
    with first, second:
        leader, other = leader_first(first, second)
        # All of them wait: the burst begins with the nodes.
        make_nodes(cluster)
        wait_until(lambda: scheduled(leader) >= 20, 30, what="binds are under way")
        os.kill(cluster.apiserver.pid, signal.SIGKILL)
        cluster.apiserver.wait_ended()
        try:
            before = scheduled(leader)
            wait_until(lambda: not leads(leader), 30, what="the leader knows that it is none")
            for each in (leader, other):
                wait_until(
                    lambda each=each: view_age(each) >= AWAY_SECONDS,  # type: ignore[misc]
                    2 * AWAY_SECONDS,
                    what="it is away for long enough",
                )
                assert (each.ops("/readyz")[0], each.ops("/livez")[0]) == (503, 200)
                assert not leads(each)
        finally:
            cluster.start_apiserver()
        assert before < NODES * EACH, "it was killed in time"
        back = time.monotonic()
        outcome = wait_settled(cluster, first, second)
        seconds = time.monotonic() - back
        assert (len(outcome.bound), len(outcome.waiting)) == (NODES * EACH, PODS - NODES * EACH)
    print(
        f"\nAPI server away for {AWAY_SECONDS} s with {before} pods bound: all settled {seconds:.1f} s later"
    )


def test_etcd_is_frozen_until_the_leader_has_lost_its_lease(cluster: ControlPlane, tmp_path: Path) -> None:
    """What was sent into the frost may have its effect when it thaws, after it was given up."""
    make_nodes(cluster)
    flag = short_lease(tmp_path)
    create_pods(cluster, PODS, cpu="80m")
    with SecondScheduler(cluster.api, tmp_path, kubeconfig=cluster.kubeconfig, flags=[flag]) as bayplan:
        wait_until(lambda: scheduled(bayplan) >= 20, 30, what="binds are under way")
        with cluster.etcd.frozen():
            since = time.monotonic()
            before = scheduled(bayplan)
            wait_until(lambda: not leads(bayplan), 30, what="the Lease is lost")
            unsettled = bayplan.metric("bayplan_unsettled_binds")
            seconds = time.monotonic() - since
        assert before < NODES * EACH, "it was frozen in time"
        outcome = wait_settled(cluster, bayplan)
        assert (len(outcome.bound), len(outcome.waiting)) == (NODES * EACH, PODS - NODES * EACH)
        assert leads(bayplan)
    print(f"\netcd frozen for {seconds:.1f} s with {before} pods bound and {unsettled:.0f} binds in doubt")


def make_nodes(cluster: ControlPlane) -> None:
    """Nodes with room for some pods less than there will be."""
    for number in range(NODES):
        cluster.api.create_node(f"n{number}", cpu="4", pods=EACH)


def view_age(bayplan: SecondScheduler) -> float:
    """For how long it has been cut off."""
    return bayplan.metric("bayplan_view_age_seconds")
