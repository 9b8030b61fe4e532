"""Two servers that could bind: the holder of the Lease does, and a paused one does no harm."""

from __future__ import annotations

import http.client
import itertools
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.plane import ControlPlane
from tests.e2e.extender import Extender
from tests.e2e.slices import SHARED, check_verified, create_owners, create_slices, wait_owners

pytestmark = pytest.mark.e2e

NODES, SLICES_A_NODE, ROUNDS = 6, 8, 2
SLICES = NODES * SLICES_A_NODE
LEASE_SECONDS = 4


@pytest.fixture
def replicas(cluster: ControlPlane, tmp_path: Path) -> Iterator[tuple[Extender, Extender]]:
    """Two servers with one configuration; a holder that vanished is waited for four seconds."""
    create_slices(cluster, nodes=NODES, each=SLICES_A_NODE)
    config = {
        "policies": [SHARED],
        "extender": {
            "lease": {"duration": f"{LEASE_SECONDS}s"},
            # A bind may take no longer than this, and that is how early a holder stops.
            "limits": {"requestTimeout": "1500ms"},
        },
    }

    def replica(name: str) -> Extender:
        return Extender(
            cluster.api,
            tmp_path,
            "",
            name=name,
            kubeconfig=cluster.kubeconfig,
            config=config,
            ready_at="/livez",
        )

    with replica("first") as first:
        first.wait_ready()
        with replica("second") as second:
            yield first, second


def test_requests_go_to_one_and_the_other_in_turn(
    cluster: ControlPlane, replicas: tuple[Extender, Extender]
) -> None:
    pods = SLICES + 6
    create_owners(cluster, range(pods))

    with alternating(*replicas) as entry, cluster.scheduler(extenders=[entry]):
        wait_owners(cluster, SLICES, 120)

    first, second = replicas
    check_verified(first)
    check_verified(second)
    assert [replica.metric("bayplan_writer") for replica in replicas] == [1, 0]
    assert first.requests("bind", result="ok") >= SLICES
    assert second.requests("bind", result="ok") == 0
    refused = second.requests("bind", result="error")
    assert refused > 0
    assert "lease default/bayplan is held by" in second.ops("/readyz")[1]
    print(f"\n{pods} pods, two servers in turn: each slice owned once; the one that waits refused {refused}")


def test_the_holder_is_paused_and_comes_back(
    cluster: ControlPlane, replicas: tuple[Extender, Extender]
) -> None:
    """Each round: the holder stops in the middle of binds, the other takes over, the first wakes up."""
    handed_over = 0
    made = 0
    with alternating(*replicas) as entry, cluster.scheduler(extenders=[entry]):
        for _ in range(ROUNDS):
            there = [pod["metadata"]["name"] for pod in cluster.api.items("pods")]
            for name in there[::2]:
                cluster.api.delete("pods", name)
            create_owners(cluster, range(made, made + 20))
            made += 20
            holder, other = sorted(replicas, key=_binds, reverse=True)
            with holder.child.frozen():
                other.wait_metric(1, "bayplan_writer")
                handed_over += 1
            # What it was about to bind when it was stopped, it must not bind now.
            asked = {"PodName": "x", "PodNamespace": "default", "PodUID": "u", "Node": "n0"}
            assert "lease" in holder.call("bind", asked)["Error"]
            wait_owners(cluster, len(cluster.api.items("pods")), 90)

    for replica in replicas:
        check_verified(replica)
    print(f"\nthe holder was paused {handed_over} times in the middle of 20 binds: no slice was owned twice")


def test_the_next_one_need_not_wait_for_a_holder_that_ended_well(
    replicas: tuple[Extender, Extender],
) -> None:
    first, second = replicas
    os.kill(first.child.pid, signal.SIGTERM)
    assert first.child.wait_ended() == 0

    second.wait_ready()

    assert second.metric("bayplan_writer") == 1


def _binds(replica: Extender) -> float:
    return replica.metric("bayplan_writer")


@contextmanager
def alternating(*replicas: Extender) -> Iterator[dict[str, Any]]:
    """A Service without a mind: one request to the one, the next to the other. The extender entry."""
    turns = itertools.cycle(replicas)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            connection = http.client.HTTPConnection("127.0.0.1", next(turns).port, timeout=5)
            try:
                connection.request("POST", self.path, body=body)
                reply = connection.getresponse()
                content = reply.read()
            except OSError:
                self.close_connection = True
                return
            finally:
                connection.close()
            self.send_response(reply.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, *_: object) -> None:
            """kube-scheduler may have left meanwhile."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        host, port = server.server_address[:2]
        entry = replicas[0].entry(bind=True)
        yield {**entry, "urlPrefix": f"http://{host!s}:{port}", "httpTimeout": "3s"}
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
