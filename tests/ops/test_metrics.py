"""The numbers that Prometheus scrapes are those that happened."""

import asyncio
import json
import platform
import re
import subprocess
import time
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import bayplan
from bayplan.authoring.load import Definition, load
from bayplan.authoring.registry import Policy
from bayplan.engine.commit import commit
from bayplan.engine.cycle import Question
from bayplan.engine.guard import Attempt
from bayplan.engine.preempt import Candidate, choose_candidates
from bayplan.ops.metrics import Metrics
from bayplan.ops.watchdog import watch_interpreter
from bayplan.runtimes.extender.app import VERBS
from bayplan.runtimes.extender.serve import Server
from bayplan.testing import make_cluster
from bayplan.testing import make_pod as make_kube_pod
from tests.controlplane.waiting import wait_until
from tests.e2e.prometheus_binary import require
from tests.runtimes.extender.caller import ask, look, make_pod, metric, names_request
from tests.runtimes.extender.obedient import make_options, serving

NODES = ["node-0", "node-1", "node-2"]


async def test_requests_nodes_and_rejections_are_counted(tmp_path: Path) -> None:
    pod = make_pod(refuse=json.dumps({"node-0": "full", "node-1": "full", "node-2": "far"}))
    async with serving(tmp_path, view=NODES) as server:
        for _ in range(3):
            await ask(server, "filter", names_request(NODES, pod=pod))
        await ask(server, "filter", names_request(NODES, pod=make_pod(do="raise", text="x")))
        await ask(server, "filter", b"garbage")
        await ask(server, "prioritize", names_request(NODES))

        async def requests(verb: str, result: str) -> float:
            return await metric(server, "bayplan_requests_total", verb=verb, result=result)

        async def rejections(reason: str) -> float:
            return await metric(
                server, "bayplan_rejections_total", policy="obedient", reason=reason, mode="decide"
            )

        assert await requests("filter", "ok") == 3
        assert await requests("filter", "error") == 1
        assert await requests("filter", "invalid") == 1
        assert await requests("prioritize", "ok") == 1
        assert await rejections("full") == 6
        assert await rejections("far") == 3
        assert await metric(server, "bayplan_nodes_total", verb="filter", verdict="refused") == 9
        assert await metric(server, "bayplan_nodes_total", verb="filter", verdict="passed") == 3
        assert await metric(server, "bayplan_policy_failures_total", policy="obedient", kind="exception") == 1
        assert await metric(server, "bayplan_request_duration_seconds_count", verb="filter") == 5
        assert await metric(server, "bayplan_request_size_bytes_count", verb="filter") == 5
        assert (
            await metric(
                server,
                "bayplan_policy_duration_seconds_count",
                policy="obedient",
                hook="obeys",
                point="filter",
            )
            == 4
        )
        assert await metric(server, "bayplan_requests_in_flight") == 0
        assert await metric(server, "bayplan_view_nodes") == 3
        assert await metric(server, "bayplan_info", version="test", python=platform.python_version()) == 1


async def test_a_policy_that_writes_numbers_into_reasons_does_not_fill_the_memory(tmp_path: Path) -> None:
    many = [f"node-{number}" for number in range(500)]
    pod = make_pod(refuse=json.dumps({name: f"{name} is full" for name in many}))
    async with serving(tmp_path, view=many) as server:
        await ask(server, "filter", names_request(many, pod=pod))

        text = (await look(server, "/metrics")).body.decode()
        other = await metric(server, "bayplan_rejections_total", policy="obedient", reason="other")

    series = [line for line in text.splitlines() if line.startswith("bayplan_rejections_total{")]
    assert len(series) == 201
    assert other == 300


def test_a_reason_keeps_its_series_when_the_limit_is_reached() -> None:
    metrics = Metrics(version="test")
    for number in range(250):
        metrics.rejected("a", f"reason {number}", 1, mode="decide")
    metrics.rejected("a", "reason 0", 1, mode="decide")
    metrics.rejected("b", "new", 1, mode="decide")

    text = metrics.render().decode()

    assert 'bayplan_rejections_total{mode="decide",policy="a",reason="reason 0"} 2.0' in text
    assert 'bayplan_rejections_total{mode="decide",policy="a",reason="other"} 50.0' in text
    assert 'bayplan_rejections_total{mode="decide",policy="b",reason="other"} 1.0' in text


async def test_metrics_are_in_the_format_of_prometheus(tmp_path: Path) -> None:
    async with serving(tmp_path, view=NODES) as server:
        answer = await look(server, "/metrics")

    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert b"# TYPE bayplan_requests_total counter" in answer.body
    assert b"process_resident_memory_bytes" in answer.body


PROTECTIVE = """
import bayplan

@bayplan.prepare
def ready(pod):
    return 1

@bayplan.protect
def guards(pod, victim, prepared):
    if victim.name.startswith("odd"):
        raise ValueError("odd")

@bayplan.victims
def price(pod, victims):
    return len(victims)

@bayplan.allocate
def gives(pod, node, prepared):
    return None
"""


def protective(folder: Path) -> Policy:
    (folder / "protective.py").write_text(PROTECTIVE)
    (found,) = load(str(folder / "protective.py"))
    return found.make(failure_policy="Ignore")


def counted(metrics: Metrics, **labels: str) -> float | None:
    return metrics.registry.get_sample_value("bayplan_policy_duration_seconds_count", labels)


def test_hooks_of_preemption_are_timed_once_a_request_and_each_failure_counts(tmp_path: Path) -> None:
    metrics, attempt = Metrics(version="test"), Attempt()
    pods = [make_kube_pod(name, uid=name, node="a") for name in ("even", "odd-1", "odd-2")]
    cluster = make_cluster(["a"], pods)
    question = Question(make_kube_pod("urgent"), cluster.nodes, cluster, datetime.now(UTC))
    candidates = [Candidate("a", tuple(pod.uid for pod in pods))]

    choose_candidates([protective(tmp_path)], question, candidates, victims={}, attempt=attempt)
    metrics.ran(attempt)

    assert counted(metrics, policy="protective", hook="guards", point="protect") == 1
    assert counted(metrics, policy="protective", hook="price", point="victims") == 1
    assert counted(metrics, policy="protective", hook="ready", point="prepare") == 1
    failures = {"policy": "protective", "kind": "exception"}
    assert metrics.registry.get_sample_value("bayplan_policy_failures_total", failures) == 2
    calls = {ran.hook.name: ran.calls for ran in attempt.ran.values()}
    assert calls == {"ready": 1, "guards": 3, "price": 1}


@bayplan.filter
def not_b(node: Any, cluster: Any) -> Any:
    return len(cluster.pods) and node.name != "b"


@pytest.mark.parametrize("verdict", ["passed", "refused"])
def test_what_filters_say_of_candidates_for_preemption_is_counted_once_a_candidate(verdict: str) -> None:
    """Also of a rule that looks at all pods, and so is asked about one candidate at a time."""
    metrics = Metrics(version="test")
    cluster = make_cluster(["a", "b"], [make_kube_pod(f"on-{n}", uid=n, node=n) for n in ("a", "b")])
    question = Question(make_kube_pod("urgent"), cluster.nodes, cluster, datetime.now(UTC))
    rule = Definition("rule", (("not_b", not_b),), None, ()).make()

    candidates = [Candidate("a", ("a",)), Candidate("b", ("b",))]
    metrics.preempted(choose_candidates([rule], question, candidates, victims={}), observe=False)

    labels = {"verb": "preempt-filter", "verdict": verdict}
    assert metrics.registry.get_sample_value("bayplan_nodes_total", labels) == 1


def test_what_is_handed_out_at_bind_is_timed(tmp_path: Path) -> None:
    metrics, attempt = Metrics(version="test"), Attempt()
    cluster = make_cluster(["a"], [])
    question = Question(make_kube_pod("web"), cluster.nodes, cluster, datetime.now(UTC))

    commit([protective(tmp_path)], question, "a", attempt)
    metrics.ran(attempt)

    assert counted(metrics, policy="protective", hook="gives", point="allocate") == 1


async def test_a_hook_that_was_given_up_fails_without_a_duration(tmp_path: Path) -> None:
    limits = {"policyTimeout": "100ms"}
    async with serving(tmp_path, view=NODES, limits=limits) as server:
        await ask(server, "filter", names_request(NODES, pod=make_pod(do="loop")))

        assert await metric(server, "bayplan_policy_failures_total", policy="obedient", kind="overrun") == 1
        assert await metric(server, "bayplan_policy_duration_seconds_count", policy="obedient") == 0
        assert await metric(server, "bayplan_policy_healthy", policy="obedient") == 0


async def test_counters_begin_at_zero_so_that_the_first_event_is_an_increase(tmp_path: Path) -> None:
    async with serving(tmp_path, view=NODES) as server:
        text = (await look(server, "/metrics")).body.decode()

    for verb in VERBS:
        for result in ("ok", "error", "invalid", "overload"):
            assert f'bayplan_requests_total{{result="{result}",verb="{verb}"}} 0.0\n' in text
    assert 'bayplan_reloads_total{result="refused"} 0.0\n' in text
    for kind in ("exception", "bad-result", "unknown-node", "overrun"):
        assert f'bayplan_policy_failures_total{{kind="{kind}",policy="obedient"}} 0.0\n' in text


async def test_every_check_of_health_is_a_number(tmp_path: Path) -> None:
    async with serving(tmp_path, view=NODES) as server:
        names = {"check": "cluster-view", "endpoint": "readyz"}
        assert await metric(server, "bayplan_health_check", **names) == 1
        assert await metric(server, "bayplan_health_check", check="policy-threads", endpoint="livez") == 1
        assert await metric(server, "bayplan_health_check", check="not-draining", endpoint="readyz") == 1
        server.leaving.draining = True
        assert await metric(server, "bayplan_health_check", check="not-draining", endpoint="readyz") == 0


async def test_a_server_that_binds_nothing_is_no_writer_and_no_missing_one(tmp_path: Path) -> None:
    async with serving(tmp_path, view=NODES) as server:
        text = (await look(server, "/metrics")).body.decode()

    assert not re.search(r"^bayplan_writer", text, re.MULTILINE)


def test_a_refused_reload_is_seen_until_one_is_taken() -> None:
    metrics = Metrics(version="test")
    value = metrics.registry.get_sample_value
    started = value("bayplan_last_reload_success_timestamp_seconds")
    assert started == pytest.approx(time.time(), abs=5)
    assert value("bayplan_last_reload_successful") == 1

    metrics.reloaded("refused")

    assert value("bayplan_last_reload_successful") == 0
    assert value("bayplan_last_reload_success_timestamp_seconds") == started

    metrics.reloaded("ok")

    assert value("bayplan_last_reload_successful") == 1
    later = value("bayplan_last_reload_success_timestamp_seconds")
    assert later is not None
    assert started is not None
    assert later > started
    assert value("bayplan_reloads_total", {"result": "refused"}) == 1


async def test_a_loop_that_is_held_comes_back_late() -> None:
    lag: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(watch_interpreter(limit_seconds=60.0, on_lag=lag.set_result))
    await asyncio.sleep(0)
    time.sleep(1.3)  # noqa: ASYNC251 - the very thing that is measured

    assert await lag >= 0.25
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_the_server_measures_its_loop(tmp_path: Path) -> None:
    options = make_options(tmp_path, view=NODES, limits={"interpreterTimeout": "2s"})
    async with Server(replace(options, watch_interpreter=True)).running() as server:
        value = partial(server.metrics.registry.get_sample_value, "bayplan_event_loop_lag_seconds_count")

        await asyncio.to_thread(wait_until, value, what="a first look", timeout_seconds=10)


def test_names_are_as_prometheus_wants_them() -> None:
    families = [f for f in Metrics(version="0").registry.collect() if f.name.startswith("bayplan_")]

    assert len(families) > 30
    for family in families:
        assert re.fullmatch(r"bayplan(_[a-z]+)+", family.name)
        assert family.documentation.endswith(".")
        if family.type == "histogram":
            assert family.name.endswith(("_seconds", "_bytes"))
        for word in ("milliseconds", "ms", "minutes", "total", "count", "sum"):
            assert not family.name.endswith(f"_{word}")


@pytest.mark.e2e
async def test_the_linter_of_prometheus_finds_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path, view=NODES) as server:
        await ask(server, "filter", names_request(NODES))
        text = (await look(server, "/metrics")).body.decode()

    command = [str(require("promtool")), "check", "metrics"]
    lint = partial(subprocess.run, command, input=text, capture_output=True, text=True, timeout=60)
    ended = await asyncio.to_thread(lint)

    assert (ended.returncode, ended.stdout + ended.stderr) == (0, "")
