"""The API server is killed, frozen, or forgets the past: view and places are right in the end."""

from __future__ import annotations

import base64
import json
import os
import signal
import time
import urllib.request
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.extender import Extender, Json
from tests.e2e.fault_proxy import FaultProxy
from tests.e2e.one_per_node import ONE_PER_NODE, SINGLE, TAKEN, bind, free_for, placed, wait_view

pytestmark = pytest.mark.e2e

MAX_AGE_SECONDS = 2


def test_killed_and_started_again_with_deletions_meanwhile(cluster: ControlPlane, tmp_path: Path) -> None:
    nodes = ["n1", "n2", "n3"]
    for name in nodes:
        cluster.api.create_node(name)
    cluster.api.create_pod("deleted-meanwhile", labels=SINGLE, node_name="n1")
    cluster.api.create_pod("stays", labels=SINGLE, node_name="n2")
    waiting = cluster.api.create_pod("waiting", labels=SINGLE)
    config = {"cluster": {"maxAge": f"{MAX_AGE_SECONDS}s"}}

    with Extender(
        cluster.api, tmp_path, ONE_PER_NODE, kubeconfig=cluster.kubeconfig, config=config
    ) as bayplan:
        wait_view(bayplan, cluster)
        assert free_for(bayplan, waiting, nodes) == ["n3"]
        server = bayplan.child.pid

        os.kill(cluster.apiserver.pid, signal.SIGKILL)
        killed = time.monotonic()
        cluster.apiserver.wait_ended()
        try:
            wait_until(lambda: ready(bayplan) == 503, 20, what="not ready any more")
            unready = time.monotonic() - killed
            assert "cut off from the API server" in bayplan.ops("/readyz?verbose")[1]
            assert free_for(bayplan, waiting, nodes) == ["n3"], "the last view is the best there is"
            etcd(cluster, "deleterange", key="/registry/pods/default/deleted-meanwhile")
            etcd(cluster, "deleterange", key="/registry/minions/n3")
        finally:
            cluster.start_apiserver()
        started = time.monotonic()
        wait_until(lambda: ready(bayplan) == 200, 20, what="ready again", explain=bayplan.child.log_tail)
        recovered = time.monotonic() - started

        assert free_for(bayplan, waiting, ["n1", "n2"]) == ["n1"]
        wait_view(bayplan, cluster)
        assert bayplan.child.pid == server
        assert bayplan.child.alive

    assert unready >= MAX_AGE_SECONDS
    print(
        f"\nAPI server killed: not ready after {unready:.1f} s (maxAge {MAX_AGE_SECONDS} s), always live,"
        f" ready {recovered:.1f} s after it was back, both deletions seen"
    )


def test_cut_off_on_a_quiet_cluster_and_connected_again(cluster: ControlPlane, tmp_path: Path) -> None:
    """Nothing happens, so that no event says that the watch is open again."""
    cluster.api.create_node("n1")
    config = {"cluster": {"maxAge": "1s"}}
    with FaultProxy(cluster, tmp_path) as proxy:
        with Extender(
            cluster.api, tmp_path, ONE_PER_NODE, kubeconfig=proxy.kubeconfig, config=config
        ) as bayplan:
            proxy.decide = lambda _method, _path: "request lost"
            proxy.cut()
            wait_until(lambda: ready(bayplan) == 503, 20, what="not ready any more")
            proxy.decide = lambda _method, _path: ""
            healed = time.monotonic()
            wait_until(lambda: ready(bayplan) == 200, 20, what="ready again", explain=bayplan.child.log_tail)
            seconds = time.monotonic() - healed
        lists = proxy.count("GET", "sendInitialEvents=true")

    assert lists == 2, "nodes once and pods once: the watches resumed where they were"
    print(f"\ncut off on a quiet cluster: ready {seconds:.1f} s after the way was free again, no list")


def test_frozen_with_a_bind_in_flight(cluster: ControlPlane, tmp_path: Path) -> None:
    nodes = ["n1", "n2"]
    for name in nodes:
        cluster.api.create_node(name)
    first = cluster.api.create_pod("first", labels=SINGLE)
    second = cluster.api.create_pod("second", labels=SINGLE)
    config = {"extender": {"limits": {"requestTimeout": "1s"}}}

    with Extender(
        cluster.api, tmp_path, ONE_PER_NODE, kubeconfig=cluster.kubeconfig, config=config
    ) as bayplan:
        wait_view(bayplan, cluster)
        with cluster.apiserver.frozen():
            since = time.monotonic()
            said = bind(bayplan, first, "n1")
            assert "may try again" in said
            # It may be bound yet, to that node and to no other; nobody else gets the place.
            assert "may yet be bound to n1" in bind(bayplan, first, "n2")
            assert "may try again" in bind(bayplan, first, "n1")
            looks = [free_for(bayplan, second, nodes) for _ in range(10)]
            assert TAKEN in bind(bayplan, second, "n1")
            seconds = time.monotonic() - since

        def settled() -> bool:
            looks.append(free_for(bayplan, second, nodes))
            return "first" in placed(cluster)

        wait_until(settled, 30, what="the first pod is bound", explain=bayplan.child.log_tail)
        assert looks == [["n2"]] * len(looks)
        assert bind(bayplan, first, "n1") == ""
        assert bind(bayplan, second, "n2") == ""
        assert placed(cluster) == {"first": "n1", "second": "n2"}

    print(f"\nAPI server frozen for {seconds:.1f} s with a bind in flight: place kept in {len(looks)} looks")


def test_the_past_is_compacted_while_the_server_sleeps(cluster: ControlPlane, tmp_path: Path) -> None:
    nodes = ["n1", "n2", "n3"]
    for name in nodes:
        cluster.api.create_node(name)
    cluster.api.create_pod("deleted-meanwhile", labels=SINGLE, node_name="n1")
    waiting = cluster.api.create_pod("waiting", labels=SINGLE)

    with FaultProxy(cluster, tmp_path) as proxy:
        with Extender(cluster.api, tmp_path, ONE_PER_NODE, kubeconfig=proxy.kubeconfig) as bayplan:
            wait_view(bayplan, cluster)
            assert free_for(bayplan, waiting, nodes) == ["n2", "n3"]
            with bayplan.child.frozen():
                # The end of its watches, before what happens next is in them.
                proxy.cut()
                cluster.api.delete("pods", "deleted-meanwhile")
                cluster.api.create_pod("created-meanwhile", labels=SINGLE, node_name="n2")
                cluster.api.delete("nodes", "n3")
                cluster.api.create_node("n4")
                revision = etcd(cluster, "range", key="/registry/none")["header"]["revision"]
                etcd(cluster, "compaction", revision=revision, physical=True)
                # A new one has no memory of its own of what etcd has forgotten.
                os.kill(cluster.apiserver.pid, signal.SIGKILL)
                cluster.apiserver.wait_ended()
                cluster.start_apiserver()
            woken = time.monotonic()
            wait_until(
                lambda: free_for(bayplan, waiting, [*nodes, "n4"]) == ["n1", "n4"],
                20,
                what="the view is right",
                explain=bayplan.child.log_tail,
            )
            seconds = time.monotonic() - woken
            gone = bayplan.log().count("the past is gone (410)")
        lists = [
            proxy.count("GET", f"/api/v1/{kind}?", "sendInitialEvents=true") for kind in ("nodes", "pods")
        ]

    assert gone == 2, "nodes and pods"
    assert lists == [2, 2], "one list at the start and one after the 410"
    print(f"\ncompacted to revision {revision}: {gone} watches gone (410), one list each, {seconds:.1f} s")


def ready(bayplan: Extender) -> int:
    """The status of readiness; whatever it is, the server is alive."""
    assert bayplan.ops("/livez")[0] == 200
    return bayplan.ops("/readyz")[0]


def etcd(cluster: ControlPlane, what: str, *, key: str = "", **request: object) -> Json:
    """Ask etcd itself, behind the API server's back."""
    body = {**request, **({"key": base64.b64encode(key.encode()).decode()} if key else {})}
    url = f"{cluster.etcd_url}/v3/kv/{what}"
    # No proxy of the environment: it is on loopback.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, data=json.dumps(body).encode(), timeout=10) as answer:
        said: Json = json.load(answer)
    return said
