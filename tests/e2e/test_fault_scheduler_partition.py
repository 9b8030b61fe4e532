"""The leader is cut off from the API server: it stops by its own clock before the other one begins."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Literal

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.after_fault import wait_settled
from tests.e2e.second_scheduler import SecondScheduler
from tests.e2e.test_schedule import create_pods, wait_bound
from tests.e2e.two_schedulers import BindProxy, leader_first, leads, short_lease

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

NODES, EACH, PODS, MORE = 10, 32, 300, 30


@pytest.mark.parametrize(
    "way",
    [
        pytest.param("cut", id="every connection is cut"),
        pytest.param("silent", id="every packet is lost and nobody says so"),
    ],
)
def test_a_leader_that_is_cut_off_stops_before_the_other_begins(
    cluster: ControlPlane, tmp_path: Path, way: Literal["cut", "silent"]
) -> None:
    for number in range(NODES):
        cluster.api.create_node(f"n{number}", cpu="4", pods=EACH)
    flag = short_lease(tmp_path)
    proxies = {name: BindProxy(cluster, tmp_path / f"{name}-proxy") for name in ("first", "second")}
    stream = threading.Thread(target=create_pods, args=(cluster, PODS), kwargs={"cpu": "125m"})
    with proxies["first"], proxies["second"]:
        first, second = (
            SecondScheduler(cluster.api, tmp_path, kubeconfig=proxy.kubeconfig, name=name, flags=[flag])
            for name, proxy in proxies.items()
        )
        with first, second:
            leader, other = leader_first(first, second)
            away, there = proxies.values() if leader is first else reversed(proxies.values())
            stream.start()
            wait_until(lambda: len(away.binds) >= 40, 30, what="binds are under way")

            partition(away, way)
            wait_until(lambda: not leads(leader), 30, what="the leader knows that it is none")
            assert not leads(other), "it knows before anybody else is the leader"
            wait_until(lambda: leads(other), 30, what="the other one leads", explain=other.child.log_tail)
            stream.join()
            wait_bound(cluster, PODS)
            asked = len(away.binds)
            assert away.binds[-1][0] < there.binds[0][0], "the last bind of the one, the first of the other"
            gap = there.binds[0][0] - away.binds[-1][0]

            heal(away)
            wait_until(
                lambda: "another server binds" in leader.ops("/readyz?verbose")[1] and sees_all(leader),
                60,
                what="the old leader is a stand-by",
                explain=leader.child.log_tail,
            )
            create_pods(cluster, MORE, cpu="125m", prefix="more")
            outcome = wait_settled(cluster, leader, other)
            assert len(outcome.bound) == NODES * EACH
            assert len(outcome.waiting) == PODS + MORE - NODES * EACH
            assert len(away.binds) == asked, "it never bound again"
        for proxy in proxies.values():
            proxy.check_bound_once()
    print(f"\npartition ({way}): {gap:.1f} s from the last bind of the one to the first of the other")


def partition(proxy: BindProxy, way: Literal["cut", "silent"]) -> None:
    """Nothing comes through any more, on old connections or new ones."""
    if way == "cut":
        proxy.fault = lambda _method, _path: "request lost"
        proxy.cut()
    else:
        proxy.fault = lambda _method, _path: "held"
        proxy.lag_seconds = float("inf")


def heal(proxy: BindProxy) -> None:
    """Everything comes through again; what TCP still holds comes late, also where nobody waits for it now."""
    proxy.fault = lambda _method, _path: ""
    proxy.lag_seconds = 0.0
    proxy.released.set()


def sees_all(bayplan: SecondScheduler) -> bool:
    """Whether its watches are open, and every pod is in view."""
    return bayplan.metric("bayplan_view_age_seconds") == 0 and bayplan.metric("bayplan_view_pods") >= PODS
