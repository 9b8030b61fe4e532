"""The reply of a bind is lost on its way: the pod is bound once, and no place is lost."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.extender import Extender
from tests.e2e.fault_proxy import Fault, FaultProxy
from tests.e2e.one_per_node import ONE_PER_NODE, SINGLE, check_one_each, wait_placed

pytestmark = pytest.mark.e2e

NODES = 30
PODS = 36


class FirstBinds:
    """The first bind of each pod meets with a fault; those after it do not."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self._met: set[str] = set()
        self._lock = threading.Lock()

    def __call__(self, method: str, path: str) -> Fault:
        if method != "POST" or not path.endswith("/binding"):
            return ""
        with self._lock:
            if path in self._met:
                return ""
            self._met.add(path)
            return self._fault


@pytest.mark.parametrize(
    ("fault", "timeout", "events"),
    [
        pytest.param("reply lost", "4.5s", NODES, id="cut after the API server has bound"),
        pytest.param("request lost", "4.5s", NODES, id="cut before the API server has read"),
        # kube-scheduler is told that nobody knows, and finds out by its watch.
        pytest.param("reply swallowed", "1s", 0, id="silent after the API server has bound"),
    ],
)
def test_each_first_bind_meets_with_a_fault(
    cluster: ControlPlane, tmp_path: Path, fault: Fault, timeout: str, events: int
) -> None:
    # With the nudge: kube-scheduler can hear sooner than we do that a place is free, asks, and never again.
    nudge = {"enabled": True, "interval": "1s"}
    config = {"extender": {"limits": {"requestTimeout": timeout}}, "cluster": {"nudge": nudge}}
    for number in range(NODES):
        cluster.api.create_node(f"n{number}")
    for number in range(PODS):
        cluster.api.create_pod(f"p{number}", cpu="10m", labels=SINGLE)

    started = time.monotonic()
    with FaultProxy(cluster, tmp_path) as proxy:
        proxy.decide = FirstBinds(fault)
        with (
            Extender(
                cluster.api, tmp_path, ONE_PER_NODE, kubeconfig=proxy.kubeconfig, config=config
            ) as bayplan,
            cluster.scheduler(extenders=[bayplan.entry(bind=True)]),
        ):
            wait_placed(cluster, NODES)
            wait_until(lambda: scheduled(cluster) >= events, 20, what="kube-scheduler has seen success")
            told = check_one_each(cluster, nodes=NODES, waiting=PODS - NODES)

            # No place is lost: whoever goes makes room for one who waits.
            gone = bound_to(cluster, "n0")
            cluster.api.delete("pods", gone)
            wait_placed(cluster, NODES)
            check_one_each(cluster, nodes=NODES, waiting=PODS - NODES - 1)

    assert proxy.faults >= NODES
    posts = proxy.count("POST", "/binding")
    print(
        f"\n{fault}: {proxy.faults} faults in {posts} binds, {NODES} pods bound once, {told} Scheduled"
        f" events; {time.monotonic() - started:.1f} s"
    )


def scheduled(cluster: ControlPlane) -> int:
    """How many events say that a pod was bound."""
    return len(cluster.api.items("events", fields="reason=Scheduled"))


def bound_to(cluster: ControlPlane, node: str) -> str:
    """The one pod of a node."""
    (pod,) = cluster.api.items("pods", fields=f"spec.nodeName={node}")
    name: str = pod["metadata"]["name"]
    return name
