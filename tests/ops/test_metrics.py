"""The numbers that Prometheus scrapes are those that happened."""

import json
from pathlib import Path

from bayplan.ops.metrics import Metrics
from tests.runtimes.extender.caller import ask, look, make_pod, metric, names_request
from tests.runtimes.extender.obedient import serving

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
            await metric(server, "bayplan_policy_duration_seconds_count", policy="obedient", hook="obeys")
            == 4
        )
        assert await metric(server, "bayplan_requests_in_flight") == 0
        assert await metric(server, "bayplan_view_nodes") == 3
        assert await metric(server, "bayplan_info", version="test") == 1


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
