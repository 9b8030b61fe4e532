"""The control plane that other tests stand on does what they rely on."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.controlplane.binaries import kubernetes_version
from tests.controlplane.client import ApiError, Client
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import ChildDied
from tests.controlplane.waiting import Timeout

pytestmark = pytest.mark.e2e

READ_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}


class PassAll(BaseHTTPRequestHandler):
    """An extender that lets every node pass, and prefers the one called ``liked``."""

    protocol_version = "HTTP/1.1"
    calls: list[tuple[str, list[str]]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        names: list[str] = body["NodeNames"]
        self.calls.append((self.path, sorted(names)))
        answer: Any = {"NodeNames": names, "FailedNodes": {}, "Error": ""}
        if self.path == "/prioritize":
            answer = [{"Host": name, "Score": 10 * (name == "liked")} for name in names]
        payload = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Stay silent."""


@contextmanager
def running_extender() -> Iterator[tuple[dict[str, Any], list[tuple[str, list[str]]]]]:
    """A `PassAll` in a thread: what to configure, and the calls that it gets."""
    calls: list[tuple[str, list[str]]] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Recording", (PassAll,), {"calls": calls}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    extender = {
        "urlPrefix": f"http://127.0.0.1:{server.server_port}",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "weight": 100,
        "nodeCacheCapable": True,
    }
    try:
        yield extender, calls
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_api_server_reports_the_version_of_go_mod(cluster: ControlPlane) -> None:
    assert cluster.api.request("GET", "/version")["gitVersion"] == kubernetes_version()


def test_a_node_keeps_the_status_it_is_created_with(cluster: ControlPlane) -> None:
    cluster.api.create_node("n1", cpu="3", extended={"example.com/gpu": "2"})

    status = cluster.api.get("nodes", "n1")["status"]

    assert status["allocatable"] == {
        "cpu": "3",
        "memory": "32Gi",
        "pods": "110",
        "example.com/gpu": "2",
    }
    assert status["conditions"][0]["status"] == "True"


def test_a_pod_is_bound_by_the_real_scheduler(cluster: ControlPlane) -> None:
    cluster.api.create_node("small", cpu="1")
    cluster.api.create_node("large", cpu="8", labels={"disk": "ssd"})

    with cluster.scheduler():
        cluster.api.create_pod("p", cpu="2", node_selector={"disk": "ssd"})

        assert cluster.api.wait_bound("p") == "large"
        assert "default/p to large" in cluster.api.wait_event("p", "Scheduled")


def test_a_pod_that_waits_already_is_bound_when_the_scheduler_comes(
    cluster: ControlPlane,
) -> None:
    cluster.api.create_node("n1")
    cluster.api.create_pod("p", scheduler_name="mine")

    with cluster.scheduler(scheduler_name="mine"):
        assert cluster.api.wait_bound("p") == "n1"


def test_a_pod_that_fits_nowhere_gets_an_event(cluster: ControlPlane) -> None:
    cluster.api.create_node("n1", cpu="1")

    with cluster.scheduler():
        cluster.api.create_pod("p", cpu="2")

        message = cluster.api.wait_event("p", "FailedScheduling", containing="1 Insufficient cpu")
        assert message.startswith("0/1 nodes are available")
        assert cluster.api.wait_unschedulable("p", containing="Insufficient cpu") == message
        assert cluster.api.node_of("p") is None


def test_an_extender_is_asked_to_filter_and_to_prioritize(cluster: ControlPlane) -> None:
    for name in ("liked", "other"):
        cluster.api.create_node(name)

    with running_extender() as (extender, calls), cluster.scheduler(extenders=[extender]):
        cluster.api.create_pod("p", cpu="1")
        node = cluster.api.wait_bound("p")

    assert node == "liked"
    assert calls == [("/filter", ["liked", "other"]), ("/prioritize", ["liked", "other"])]


def test_high_verbosity_shows_what_the_scheduler_understood(cluster: ControlPlane) -> None:
    for name in ("liked", "other"):
        cluster.api.create_node(name)

    with (
        running_extender() as (extender, _),
        cluster.scheduler(extenders=[extender], verbosity=10) as scheduler,
    ):
        cluster.api.create_pod("p")
        cluster.api.wait_bound("p")

    assert "Extender scored node for pod" in scheduler.log()


def test_an_extender_that_nobody_answers_for_is_a_scheduler_error(cluster: ControlPlane) -> None:
    cluster.api.create_node("n1")
    with running_extender() as (extender, _):
        pass

    with cluster.scheduler(extenders=[extender]):
        cluster.api.create_pod("p")

        said = cluster.api.wait_unschedulable("p", reason="SchedulerError")
        assert "connection refused" in said


def test_victims_of_preemption_go_away_without_a_kubelet(cluster: ControlPlane) -> None:
    cluster.api.create_priority_class("urgent", 1000)
    cluster.api.create_node("n1", cpu="1")
    cluster.api.create_pod("victim", cpu="1", node_name="n1")
    cluster.api.set_phase("victim", "Running")

    with cluster.scheduler():
        cluster.api.create_pod("p", cpu="1", priority_class="urgent")

        cluster.api.wait_gone("victim")
        assert cluster.api.wait_bound("p") == "n1"


def test_a_configuration_that_somebody_else_wrote_is_run(cluster: ControlPlane) -> None:
    cluster.api.create_node("n1")
    cluster.api.create_pod("p", scheduler_name="theirs")

    theirs = {"profiles": [{"schedulerName": "theirs"}], "clientConnection": {"qps": 10}}
    with cluster.scheduler(configuration=theirs):
        assert cluster.api.wait_bound("p") == "n1"


def test_the_scheduler_shows_its_metrics(cluster: ControlPlane) -> None:
    with cluster.scheduler() as scheduler:
        assert "scheduler_pending_pods" in scheduler.metrics()


def test_a_configuration_that_is_refused_is_shown_with_the_log(cluster: ControlPlane) -> None:
    with (
        pytest.raises(ChildDied, match=r"kube-scheduler.* ended with 1(?s:.*)urlPrefixx"),
        cluster.scheduler(extenders=[{"urlPrefixx": "http://127.0.0.1:1"}]),
    ):
        pass


def test_a_wait_ends_at_once_when_the_scheduler_dies(cluster: ControlPlane) -> None:
    with cluster.scheduler() as scheduler:
        cluster.api.create_pod("p")
        os.kill(scheduler.pid, signal.SIGKILL)

        with pytest.raises(ChildDied, match="ended with -9"):
            cluster.api.wait_bound("p")


def test_a_wait_in_vain_says_what_is_known(cluster: ControlPlane) -> None:
    cluster.api.create_node("n1", cpu="1")

    with cluster.scheduler():
        cluster.api.create_pod("p", cpu="2")
        cluster.api.wait_event("p", "FailedScheduling")

        with pytest.raises(Timeout) as failure:
            cluster.api.wait_bound("p", 0.1)

    message = str(failure.value)
    assert message.startswith("pod default/p is bound: not within 0.1 s")
    assert "event FailedScheduling: 0/1 nodes are available" in message
    assert "kube-scheduler.log ---" in message


def test_after_a_test_that_left_the_api_server_dead_there_is_another(cluster: ControlPlane) -> None:
    os.kill(cluster.apiserver.pid, signal.SIGKILL)
    cluster.apiserver.wait_ended()

    cluster.recover()

    cluster.check()
    cluster.api.create_node("n1")


def test_clear_clears(cluster: ControlPlane) -> None:
    api = cluster.api
    api.create_node("n1")
    api.create_namespace("batch")
    api.create_priority_class("urgent", 1000)
    api.create_pod("there", namespace="batch", priority_class="urgent")
    api.create_pod("held", node_name="n1")
    api.patch("pods", "held", {"metadata": {"finalizers": ["example.com/held"]}})
    api.create("configmaps", {"metadata": {"name": "c"}})
    with cluster.scheduler():
        api.wait_event("there", "Scheduled", namespace="batch")

    api.clear()

    for resource in ("pods", "nodes", "events", "configmaps"):
        own = [
            item
            for item in api.items(resource, None)
            if not item["metadata"].get("namespace", "").startswith("kube-")
        ]
        assert own == [], resource
    assert {item["metadata"]["name"] for item in api.items("priorityclasses")} == {
        "system-cluster-critical",
        "system-node-critical",
    }
    assert {item["metadata"]["name"] for item in api.items("namespaces")} == {
        "default",
        "kube-node-lease",
        "kube-public",
        "kube-system",
    }


def test_a_user_without_rights_is_refused(cluster: ControlPlane) -> None:
    with (
        cluster.client_for("nobody") as client,
        pytest.raises(ApiError, match='User "nobody" cannot list resource "pods"') as failure,
    ):
        client.items("pods")

    assert failure.value.status == 403


def test_a_user_may_do_what_the_rules_say_and_no_more(cluster: ControlPlane) -> None:
    with cluster.client_for("reader", [READ_PODS]) as client:
        assert client.items("pods", None) == []
        with pytest.raises(ApiError) as failure:
            client.create("pods", {"metadata": {"name": "p"}})

    assert failure.value.status == 403


def test_rights_can_be_taken_back(cluster: ControlPlane) -> None:
    with cluster.client_for("reader", [READ_PODS]) as client:
        cluster.kubeconfig_for("reader", [])
        with pytest.raises(ApiError) as failure:
            client.items("pods")

    assert failure.value.status == 403


def test_a_kubeconfig_can_hold_the_token_of_a_service_account(cluster: ControlPlane) -> None:
    path = cluster.kubeconfig_for("bayplan", [READ_PODS], credential="token")
    token = json.loads(path.read_text())["users"][0]["user"]["token"]

    with Client(cluster.server, cluster.ca.cert, token=token) as client:
        assert client.items("pods") == []
        with pytest.raises(ApiError, match='"system:serviceaccount:default:bayplan" cannot list'):
            client.items("nodes")


def test_a_stopped_control_plane_leaves_nothing_behind(cluster: ControlPlane) -> None:
    with ControlPlane(cluster.binaries) as other, other.scheduler() as scheduler:
        pids = [other.etcd.pid, other.apiserver.pid, scheduler.pid]
        assert all(map(is_alive, pids))

    assert not any(map(is_alive, pids))
    assert not other.directory.exists()
