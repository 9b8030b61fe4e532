"""``bayplan schedule`` with the sections that ``serve`` has: reload, record, shadow and tracing."""

from __future__ import annotations

import http.server
import json
import os
import signal
import subprocess
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.extender import COMMAND
from tests.e2e.second_scheduler import NAME, SecondScheduler
from tests.e2e.test_schedule import create_pods, wait_bound

pytestmark = pytest.mark.e2e

PATIENCE_SECONDS = 30.0
ONLY = """
import bayplan

@bayplan.filter
def only(pod, node):
    return None if node.name == "{node}" else "not today"
"""
PREFERS = """
import bayplan

@bayplan.filter
def even(pod, node):
    if pod.labels.get("try") == "even" and int(node.name[1:]) % 2:
        return "odd"

@bayplan.score(range=(0, 10))
def likes(pod, node):
    return 10 - abs(int(node.name[1:]) - {favourite})
"""


class Folder:
    """A configuration with one policy, and the scheduler that follows it."""

    def __init__(self, plane: ControlPlane, path: Path, policy: str, **sections: Any) -> None:
        self.path = path
        self.sections: dict[str, Any] = sections
        self.policy(policy)
        self.configure()
        flags = [f"--config={path / 'bayplan.yaml'}"]
        self.bayplan = SecondScheduler(plane.api, path, kubeconfig=plane.kubeconfig, flags=flags)

    def policy(self, text: str, name: str = "policy.py") -> None:
        (self.path / name).write_text(text)

    def configure(self, name: str = "bayplan.yaml", **sections: Any) -> None:
        """Write the configuration, with these sections in place of the first ones."""
        document = {
            "apiVersion": "bayplan.dev/v1",
            "kind": "BayplanConfiguration",
            "policies": [{"use": "policy.py", "weight": 100}],
            **self.sections,
            **sections,
        }
        (self.path / name).write_text(yaml.safe_dump(document))

    def hang_up(self) -> None:
        os.kill(self.bayplan.child.pid, signal.SIGHUP)

    def until(self, generation: int) -> None:
        """Wait until that many configurations have been at work."""
        wait_until(
            lambda: self.bayplan.metric("bayplan_generation") == generation,
            PATIENCE_SECONDS,
            what=f"generation {generation} is at work",
            explain=self.bayplan.log,
        )

    def until_refused(self, count: int) -> str:
        """Wait until so many changes were refused; why the last one was."""
        wait_until(
            lambda: self.bayplan.metric("bayplan_reloads_total", result="refused") == count,
            PATIENCE_SECONDS,
            what="the change is refused",
            explain=self.bayplan.log,
        )
        problem: str = self.page("/api/state")["policies"]["reloadProblem"]
        return problem

    def page(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.bayplan.page_port}{path}") as answer:
            return json.load(answer)


def test_a_reload_in_a_burst_sends_the_next_pods_elsewhere_and_loses_none(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    api = cluster.api
    for node in ("left", "right"):
        api.create_node(node, cpu="64", pods=500)
    folder = Folder(cluster, tmp_path, ONLY.format(node="left"))
    with folder.bayplan as bayplan:
        burst = threading.Thread(target=create_pods, args=(cluster, 300), kwargs={"cpu": "10m"})
        burst.start()
        wait_bound(cluster, 30)
        folder.policy(ONLY.format(node="right"))
        folder.hang_up()
        folder.until(2)
        api.create_pod("after", cpu="10m", scheduler_name=NAME)
        assert api.wait_bound("after") == "right"
        burst.join()
        wait_bound(cluster, 301)
        wait_until(
            lambda: bayplan.metric("bayplan_schedule_attempts_total", result="scheduled") == 301,
            PATIENCE_SECONDS,
            what="every bind has ended",
        )
        assert bayplan.metric("bayplan_last_reload_successful") == 1
        assert bayplan.metric("bayplan_pending_pods") == 0
        decisions = folder.page("/api/decisions?limit=1000")
    placed = Counter(pod["spec"]["nodeName"] for pod in api.items("pods"))
    assert placed.total() == 301
    assert placed["left"] >= 30
    assert placed["right"] >= 1
    assert {each["generation"] for each in decisions} >= {2}
    assert "generation 2: policies: policy" in bayplan.log()


def test_a_bad_file_keeps_the_old_one_and_a_good_one_helps_those_who_were_refused(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    api = cluster.api
    api.create_node("here")
    folder = Folder(cluster, tmp_path, ONLY.format(node="here"))
    with folder.bayplan as bayplan:
        folder.policy("this is no python")
        assert "policy.py:1" in folder.until_refused(1)
        assert bayplan.metric("bayplan_last_reload_successful") == 0
        assert "the new configuration is not used, the old one stays" in bayplan.log()
        api.create_pod("first", scheduler_name=NAME)
        assert api.wait_bound("first") == "here"

        folder.policy(ONLY.format(node="elsewhere"))
        folder.until(2)
        api.create_pod("second", scheduler_name=NAME)
        assert api.wait_unschedulable("second").startswith("0/1 nodes are available: 1 not today.")

        folder.configure(scheduler={"parallelBinds": 3}, cluster={"maxAge": "1s"})
        problem = folder.until_refused(2)
        assert problem == "restart the server to change cluster.maxAge, scheduler.parallelBinds"

        folder.configure()
        folder.policy(ONLY.format(node="here"))
        folder.until(3)
        assert api.wait_bound("second") == "here"
        assert bayplan.ops("/readyz")[0] == 200


def test_pods_of_a_name_that_came_are_found_and_those_of_one_that_went_are_left_alone(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    api = cluster.api
    api.create_node("node")
    first, other = {"schedulerName": NAME}, {"schedulerName": "other"}
    folder = Folder(cluster, tmp_path, ONLY.format(node="nowhere"), scheduler={"profiles": [first]})
    with folder.bayplan as bayplan:
        api.create_pod("ours", scheduler_name=NAME)
        api.create_pod("theirs", scheduler_name="other")
        api.wait_unschedulable("ours")
        assert bayplan.metric("bayplan_pending_pods") == 1

        folder.configure(scheduler={"profiles": [first, other]})
        folder.until(2)
        api.wait_unschedulable("theirs")
        assert bayplan.metric("bayplan_pending_pods") == 2

        folder.configure(scheduler={"profiles": [first]})
        folder.until(3)
        assert bayplan.metric("bayplan_pending_pods") == 1
        assert "pod default/theirs is not ours any more: there is no scheduler other" in bayplan.log()
        folder.policy(ONLY.format(node="node"))
        folder.until(4)
        assert api.wait_bound("ours") == "node"
        assert api.node_of("theirs") is None

        folder.configure(scheduler={"profiles": [other]})
        assert "the Lease is called by" in folder.until_refused(1)


def test_what_was_recorded_is_replayed_with_the_same_decisions(cluster: ControlPlane, tmp_path: Path) -> None:
    api = cluster.api
    api.create_priority_class("low", 10)
    api.create_priority_class("high", 1000)
    for number in range(6):
        api.create_node(f"n{number}", cpu="4")
    recording = tmp_path / "recording.jsonl.gz"
    folder = Folder(
        cluster, tmp_path, PREFERS.format(favourite=3), record={"file": recording.name}, shadow={}
    )
    with folder.bayplan as bayplan:
        for number in range(30):
            labels = {"try": "even" if number % 3 else "any"}
            api.create_pod(f"p{number}", cpu="500m", labels=labels, priority_class="low", scheduler_name=NAME)
        api.create_pod("huge", cpu="16", scheduler_name=NAME)
        wait_bound(cluster, 30)
        api.wait_unschedulable("huge")
        # One for whom room is made, and who is judged alone on the node that is kept for it.
        api.create_pod("urgent", cpu="4", priority_class="high", scheduler_name=NAME)
        api.wait_bound("urgent")
        assert "recording to" in bayplan.log()

    replayed = run("replay", recording, "-o", "json")
    found = json.loads(replayed.stdout)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert (found["differences"], found["warnings"]) == ([], [])
    assert found["equal"]["schedule"] >= 32

    other = tmp_path / "other"
    other.mkdir()
    (other / "policy.py").write_text(PREFERS.format(favourite=0))
    folder.configure("other/bayplan.yaml", record={})
    assert run("replay", recording, "--config", other / "bayplan.yaml").returncode == 1
    compared = json.loads(run("compare", recording, "-c", other / "bayplan.yaml", "-o", "json").stdout)
    assert compared["pods"] == 32
    assert compared["changes"]["elsewhere"] > 0


def test_pods_go_where_the_live_one_says_and_the_candidates_disagreements_are_counted(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    api = cluster.api
    for number in range(3):
        api.create_node(f"n{number}")
    folder = Folder(cluster, tmp_path, PREFERS.format(favourite=0), shadow={"config": "next.yaml"})
    folder.policy(PREFERS.format(favourite=2).replace("% 2", "% 3"), "next.py")
    folder.configure("next.yaml", policies=[{"use": "next.py", "name": "policy", "weight": 100}], shadow={})

    def settled(calls: int) -> dict[str, Any]:
        wait_until(
            lambda: sum(folder.page("/api/shadow")["results"].values()) >= calls,
            PATIENCE_SECONDS,
            what=f"{calls} calls are through",
            explain=folder.bayplan.log,
        )
        report: dict[str, Any] = folder.page("/api/shadow")
        return report

    with folder.bayplan as bayplan:
        for number, what in enumerate(["any", "any", "even"]):
            api.create_pod(f"p{number}", labels={"try": what}, scheduler_name=NAME)
            assert api.wait_bound(f"p{number}") == "n0"
        report = settled(6)
        counted = {
            (verb, result): bayplan.metric("bayplan_shadow_decisions_total", verb=verb, result=result)
            for verb in ("filter", "prioritize")
            for result in ("same", "refuses_more", "accepts_more", "mixed", "other_node", "failed", "skipped")
        }
        folder.policy("this is no python", "next.py")
        wait_until(
            lambda: bayplan.metric("bayplan_shadow_last_reload_successful") == 0,
            PATIENCE_SECONDS,
            what="the bad candidate is refused",
            explain=bayplan.log,
        )
        api.create_pod("last", scheduler_name=NAME)
        assert api.wait_bound("last") == "n0"

    assert {key: count for key, count in counted.items() if count} == {
        ("filter", "same"): 2,
        ("filter", "refuses_more"): 1,
        ("prioritize", "other_node"): 3,
    }
    assert (report["compared"], report["disagreed"]) == (6, 4)
    best = {
        each["pod"]: (each["difference"]["live"]["best"], each["difference"]["candidate"]["best"])
        for each in report["examples"]
        if each["verb"] == "prioritize"
    }
    assert best["default/p0"] == (["n0"], ["n2"])
    assert all(each["decision"] for each in report["examples"])


def test_an_attempt_is_a_span_with_the_queue_the_judgement_and_the_bind_below_it(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    pytest.importorskip("opentelemetry.sdk")
    api = cluster.api
    api.create_node("n0")
    with collector() as (spans, url):
        tracing = {"otlpEndpoint": url, "sampleRatio": 1.0}
        folder = Folder(cluster, tmp_path, PREFERS.format(favourite=0), tracing=tracing)
        with folder.bayplan:
            api.create_pod("traced", scheduler_name=NAME)
            api.wait_bound("traced")
            api.create_pod("huge", cpu="64", scheduler_name=NAME)
            api.wait_unschedulable("huge")

    roots = {attributes(span)["k8s.pod.name"]: span for span in spans if not span.parent_span_id}
    bound, refused = roots["traced"], roots["huge"]
    assert attributes(bound) | {"bayplan.generation": "1"} == attributes(bound)
    assert {bound.name, attributes(bound)["k8s.node.name"], attributes(bound)["bayplan.result"]} == {
        "schedule",
        "n0",
        "scheduled",
    }
    assert attributes(refused)["bayplan.result"] == "unschedulable"
    parts = {span.name: span for span in spans if span.parent_span_id == bound.span_id}
    assert set(parts) == {"queue", "judge", "bind"}
    below = {span.name for span in spans if span.parent_span_id == parts["judge"].span_id}
    assert {"filter policy", "filter NodeResourcesFit"} <= below
    assert "API server POST" in {s.name for s in spans if s.parent_span_id == parts["bind"].span_id}
    assert "bind" not in {span.name for span in spans if span.parent_span_id == refused.span_id}


def test_a_nudge_is_told_to_have_no_meaning(cluster: ControlPlane, tmp_path: Path) -> None:
    cluster.api.create_node("n0")
    folder = Folder(cluster, tmp_path, ONLY.format(node="n0"), cluster={"nudge": {"enabled": True}})
    with folder.bayplan as bayplan:
        cluster.api.create_pod("pod", scheduler_name=NAME)
        assert cluster.api.wait_bound("pod") == "n0"
        assert "cluster.nudge is enabled and does nothing here" in bayplan.log()


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(COMMAND), *(str(argument) for argument in arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@contextmanager
def collector() -> Iterator[tuple[list[Any], str]]:
    """A collector of spans: those that it was sent, and where it listens."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    spans: list[Any] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                import gzip

                body = gzip.decompress(body)
            sent = ExportTraceServiceRequest.FromString(body)
            for resource in sent.resource_spans:
                spans.extend(span for scope in resource.scope_spans for span in scope.spans)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            """Nobody reads it."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield spans, f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def attributes(span: Any) -> dict[str, str]:
    """The attributes of a span, as text."""
    return {each.key: each.value.string_value or str(each.value.int_value) for each in span.attributes}
