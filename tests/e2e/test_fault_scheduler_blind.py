"""The leader's lists and watches fail, its Lease can be renewed: one that sees the cluster takes over."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.after_fault import wait_settled
from tests.e2e.fault_proxy import Fault
from tests.e2e.second_scheduler import NAME, SecondScheduler
from tests.e2e.test_schedule import create_pods, wait_bound
from tests.e2e.two_schedulers import LEASE_SECONDS, BindProxy, leader_first, leads, short_lease

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

NODES, EACH, PODS = 4, 32, 40
MAX_AGE_SECONDS = 3


def lists_fail(method: str, path: str) -> Fault:
    """What an API server does that has enough time for Leases only."""
    return "request lost" if method == "GET" and "/leases/" not in path else ""


def blinded(proxy: BindProxy) -> None:
    """From now on nothing of the cluster is seen this way."""
    proxy.fault = lists_fail
    proxy.cut()


def test_a_blind_leader_leaves_the_lease_to_one_that_sees(cluster: ControlPlane, tmp_path: Path) -> None:
    for number in range(NODES):
        cluster.api.create_node(f"n{number}", cpu="4", pods=EACH)
    flag = short_lease(tmp_path, source="kubeconfig", maxAge=f"{MAX_AGE_SECONDS}s")
    proxies = {name: BindProxy(cluster, tmp_path / f"{name}-proxy") for name in ("first", "second")}
    with proxies["first"], proxies["second"]:
        first, second = (
            SecondScheduler(cluster.api, tmp_path, kubeconfig=proxy.kubeconfig, name=name, flags=[flag])
            for name, proxy in proxies.items()
        )
        with first, second:
            leader, other = leader_first(first, second)
            away, there = proxies.values() if leader is first else reversed(proxies.values())
            create_pods(cluster, PODS, cpu="100m")
            wait_bound(cluster, PODS)
            time.sleep(LEASE_SECONDS)

            blinded(away)
            began = time.monotonic()
            create_pods(cluster, PODS, cpu="100m", prefix="more")
            wait_until(lambda: leads(other), 40, what="the other one leads", explain=leader.child.log_tail)
            took = time.monotonic() - began
            wait_bound(cluster, 2 * PODS)
            assert not leads(leader)
            assert "is left to others: cut off from the API server" in leader.log()
            assert leader.ops("/livez")[0] == 200
            asked = len(away.binds)

            away.fault = lambda _method, _path: ""
            wait_until(lambda: leader.ops("/readyz")[0] == 200, 30, what="the old leader sees again")
            blinded(there)
            create_pods(cluster, PODS, cpu="100m", prefix="last")
            wait_until(lambda: leads(leader), 40, what="it leads again", explain=other.child.log_tail)
            wait_bound(cluster, 3 * PODS)
            there.fault = lambda _method, _path: ""
            wait_settled(cluster, leader, other)
            assert len(away.binds) > asked
        for proxy in proxies.values():
            proxy.check_bound_once()
    print(f"\nblind leader: the other one led {took:.1f} s after the leader had lost its watches")


def test_one_that_is_alone_goes_on_when_it_sees_again(cluster: ControlPlane, tmp_path: Path) -> None:
    cluster.api.create_node("n0", cpu="4", pods=EACH)
    flag = short_lease(tmp_path, source="kubeconfig", maxAge=f"{MAX_AGE_SECONDS}s")
    with BindProxy(cluster, tmp_path / "proxy") as proxy:
        alone = SecondScheduler(cluster.api, tmp_path, kubeconfig=proxy.kubeconfig, flags=[flag])
        with alone:
            wait_until(lambda: leads(alone), 30, what="it leads")
            time.sleep(LEASE_SECONDS)
            blinded(proxy)
            wait_until(
                lambda: "is left to others" in alone.log(),
                40,
                what="it gives up",
                explain=alone.child.log_tail,
            )
            cluster.api.create_pod("late", scheduler_name=NAME)
            proxy.fault = lambda _method, _path: ""

            assert cluster.api.wait_bound("late", 40) == "n0"
            wait_settled(cluster, alone)
