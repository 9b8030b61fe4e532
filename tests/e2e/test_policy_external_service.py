"""ExternalService on the real kube-scheduler: its texts and scores; the service down, and hanging."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.ports import free_port
from tests.e2e.extender import Extender

pytestmark = pytest.mark.e2e


class Service:
    """A web service that says what it was told to say, and writes down what it was asked."""

    def __init__(self, port: int, answer: dict[str, Any], *, hangs: bool = False) -> None:
        self.questions: list[dict[str, Any]] = []
        self.released = threading.Event()
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                service.questions.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                if hangs:
                    service.released.wait(60)
                content = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                """Keep quiet."""

        self.server = _Quiet(("127.0.0.1", port), Handler)


class _Quiet(http.server.ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever hung up does not want to be told."""


@contextmanager
def running(service: Service) -> Iterator[Service]:
    threading.Thread(target=service.server.serve_forever, daemon=True).start()
    try:
        yield service
    finally:
        service.released.set()
        service.server.shutdown()
        service.server.server_close()


def extender(cluster: ControlPlane, directory: Path, port: int, **source: Any) -> Extender:
    config = {
        "sources": [
            {"name": "licences", "per": "pod", "http": {"url": f"http://127.0.0.1:{port}/"}, **source}
        ],
        "policies": [{"use": "ExternalService", "args": {"source": "licences"}}],
    }
    return Extender(cluster.api, directory, "", kubeconfig=cluster.kubeconfig, config=config)


def test_the_service_refuses_with_its_own_text_and_its_scores_decide(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    api = cluster.api
    for name in ("liked", "disliked", "unlicensed"):
        api.create_node(name)
    # kube-scheduler alone would rather not go where so much is taken already.
    api.create_pod("there", cpu="6", memory="24Gi", node_name="liked")
    answer = {"liked": {"score": 9}, "disliked": {"score": 2}, "unlicensed": {"refuse": "no licence left"}}
    port = free_port()
    with (
        running(Service(port, answer)) as service,
        extender(cluster, tmp_path, port) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry(weight=50)]),
    ):
        api.create_pod("web", cpu="100m", labels={"team": "red"})
        assert api.wait_bound("web") == "liked"

        # Asked once for filter and prioritize, about this pod and all three nodes.
        (asked,) = service.questions
        assert asked["pod"]["name"] == "web"
        assert asked["pod"]["labels"] == {"team": "red"}
        assert sorted(asked["nodes"]) == ["disliked", "liked", "unlicensed"]

        api.create_pod("large", cpu="7")
        api.wait_bound("large")
        api.create_pod("too-large", cpu="7")
        said = api.wait_event("too-large", "FailedScheduling", containing="1 no licence left")
        assert "2 Insufficient cpu" in said


def test_a_service_that_is_down_is_answered_for_by_the_fallback(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    api = cluster.api
    api.create_node("any")
    port = free_port()
    with (
        extender(cluster, tmp_path, port, fallback={"refuse": "licences cannot be checked"}) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry()]),
    ):
        api.create_pod("web", cpu="100m")
        api.wait_event("web", "FailedScheduling", containing="1 licences cannot be checked")
        assert bayplan.metric("bayplan_source_up", source="licences") == 0

        with running(Service(port, {"any": {"score": 1}})):
            # An event of the cluster, after which kube-scheduler tries again.
            api.create_node("another")
            api.wait_bound("web")


@pytest.mark.alone
def test_a_service_that_hangs_costs_seconds_and_no_pod(cluster: ControlPlane, tmp_path: Path) -> None:
    api = cluster.api
    api.create_node("any")
    port = free_port()
    with (
        running(Service(port, {}, hangs=True)) as service,
        extender(cluster, tmp_path, port) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry()]),
    ):
        started = time.monotonic()
        for number in range(20):
            api.create_pod(f"p{number}", cpu="10m")
        for number in range(20):
            api.wait_bound(f"p{number}")
        took = time.monotonic() - started

        # Five questions of half a second each; then nobody waits for it any more.
        assert len(service.questions) == 5
        assert took < 8, took
