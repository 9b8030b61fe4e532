"""Spans: one for each request, with one below it for each hook and each call of the API server."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from bayplan.client.connect import Connection
from bayplan.config.flags import Flags, load_all
from bayplan.config.load import ConfigError
from bayplan.config.unchangeable import needs_restart
from bayplan.ops.tracing import TracingError, TracingOptions, begin, note_api_call, open_tracing
from bayplan.runtimes.extender.options import options_from
from bayplan.runtimes.extender.serve import Server
from tests.client import serving as loopback
from tests.runtimes.extender.caller import Caller, ask, make_node, make_pod, names_request, request
from tests.runtimes.extender.obedient import make_options, write_config

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

NODES = ["node-0", "node-1"]
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
WITHOUT = "OpenTelemetry is not installed: run `make test`, or pip install -e '.[otel]'"


@pytest.fixture
def exporter() -> Iterator["InMemorySpanExporter"]:
    """Keeps the spans of a test; nothing is skipped in CI, where nobody would see it."""
    if os.environ.get("CI", "") in ("", "0", "false"):
        pytest.importorskip("opentelemetry.sdk", reason=WITHOUT)
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    yield exporter
    exporter.shutdown()


class Traced:
    """A server that tells its traces to the exporter."""

    def __init__(self, server: Server, exporter: "InMemorySpanExporter", *, ratio: float = 1.0) -> None:
        from bayplan.ops.otel import OtelTracing

        self.server = server
        self._exporter = exporter
        self._tracing = OtelTracing(exporter, sample_ratio=ratio, version="test")
        server.app.tracing = self._tracing

    def spans(self) -> list["ReadableSpan"]:
        """Parents first."""
        self._tracing.flush()
        return sorted(self._exporter.get_finished_spans(), key=lambda span: span.parent is not None)

    def close(self) -> None:
        self._tracing.close()


@contextlib.asynccontextmanager
async def traced(
    folder: Path, exporter: "InMemorySpanExporter", *, ratio: float = 1.0, **changes: Any
) -> AsyncIterator[Traced]:
    async with Server(replace(make_options(folder, view=NODES), **changes)).running() as server:
        with contextlib.closing(Traced(server, exporter, ratio=ratio)) as found:
            yield found


def said(span: "ReadableSpan") -> dict[str, Any]:
    return dict(span.attributes or {})


async def test_a_request_is_a_span_with_its_hooks_below_it(
    tmp_path: Path, exporter: "InMemorySpanExporter"
) -> None:
    async with traced(tmp_path, exporter) as there:
        await ask(there.server, "filter", names_request(NODES, pod=make_pod("web-7")))
        root, *hooks = there.spans()

    assert (root.name, root.kind.name, root.status.status_code.name) == ("filter", "SERVER", "UNSET")
    assert said(root) == {
        "bayplan.verb": "filter",
        "bayplan.result": "ok",
        "bayplan.generation": 1,
        "k8s.namespace.name": "default",
        "k8s.pod.name": "web-7",
    }
    assert {hook.name for hook in hooks} == {"filter obedient", "filter other"}
    mine = next(hook for hook in hooks if hook.name == "filter obedient")
    assert said(mine) == {
        "bayplan.policy": "obedient",
        "bayplan.hook": "obeys",
        "bayplan.point": "filter",
        "bayplan.calls": 1,
    }
    for hook in hooks:
        assert hook.parent is not None
        assert root.context is not None
        assert hook.parent.span_id == root.context.span_id
        times = [root.start_time, hook.start_time, hook.end_time, root.end_time]
        assert times == sorted(times, key=lambda time: time or 0)


async def test_a_policy_that_fails_marks_its_span_and_that_of_the_request(
    tmp_path: Path, exporter: "InMemorySpanExporter"
) -> None:
    async with traced(tmp_path, exporter) as there:
        await ask(there.server, "filter", names_request(NODES, pod=make_pod(do="raise", text="oops")))
        root, *hooks = there.spans()

    assert said(root)["bayplan.result"] == "error"
    assert "oops" in (root.status.description or "")
    failed = {hook.name: hook.status.description for hook in hooks if not hook.status.is_ok}
    assert failed == {"filter obedient": "exception"}


async def test_two_requests_on_one_connection_are_two_traces(
    tmp_path: Path, exporter: "InMemorySpanExporter"
) -> None:
    async with traced(tmp_path, exporter) as there, await Caller.connect(there.server) as caller:
        for verb in ("filter", "prioritize"):
            await caller.post(verb, names_request(NODES))
        first, second, *steps = there.spans()

    assert (first.name, second.name) == ("filter", "prioritize")
    assert [step.name for step in steps] == ["filter obedient", "filter other", "score obedient"]
    assert first.context is not None
    assert second.context is not None
    assert first.context.trace_id != second.context.trace_id


async def test_a_ratio_of_nothing_sends_nothing_unless_the_caller_traces(
    tmp_path: Path, exporter: "InMemorySpanExporter"
) -> None:
    async with traced(tmp_path, exporter, ratio=0.0) as there:
        await ask(there.server, "filter", names_request(NODES))
        assert there.spans() == []

        parent = {"Traceparent": f"00-{TRACE_ID}-b7ad6b7169203331-01"}
        async with await Caller.connect(there.server) as caller:
            await caller.send(request("filter", names_request(NODES), headers=parent))
            await caller.reply()
        spans = there.spans()

    assert {f"{span.context.trace_id:032x}" for span in spans if span.context} == {TRACE_ID}
    assert len(spans) == 3


class Cluster:
    """An API server with two nodes and a pod, whose watches never tell anything."""

    def __init__(self) -> None:
        self.bound: list[str] = []

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "POST":
            self.bound.append(request.path)
            return web.json_response({"kind": "Status", "status": "Success"}, status=201)
        if "sendInitialEvents" in request.query:
            return web.json_response({"message": "it is an older one"}, status=422)
        if "watch" in request.query:
            response = web.StreamResponse()
            await response.prepare(request)
            await asyncio.Event().wait()
        pods = request.path.endswith("/pods")
        items = [make_pod("web-7")] if pods else [make_node(name) for name in NODES]
        return web.json_response({"metadata": {"resourceVersion": "7"}, "items": items})


async def test_a_bind_shows_the_call_of_the_api_server(
    tmp_path: Path, exporter: "InMemorySpanExporter"
) -> None:
    cluster = Cluster()
    binding = {"PodName": "web-7", "PodNamespace": "default", "PodUID": "uid-web-7", "Node": "node-1"}
    async with loopback.serving(cluster.handle) as url:
        changes: dict[str, Any] = {"snapshot": None, "connection": Connection(url, tls=None)}
        async with traced(tmp_path, exporter, **changes) as there:
            assert there.server.live is not None
            await there.server.live.view.listed()
            reply = await ask(there.server, "bind", binding)
            root, *calls = there.spans()

    path = "/api/v1/namespaces/default/pods/web-7/binding"
    assert (reply.json["Error"], cluster.bound) == ("", [path])
    assert said(root)["k8s.pod.name"] == "web-7"
    assert said(root)["k8s.node.name"] == "node-1"
    assert [(call.name, call.kind.name) for call in calls] == [("API server POST", "CLIENT")]
    assert said(calls[0]) == {"http.request.method": "POST", "url.path": path}


def test_what_goes_on_after_the_answer_belongs_to_nobody() -> None:
    trace = begin("bind", 1, {})
    note_api_call("POST", "/a", began=1.0, seconds=0.1, error="")
    trace.ended = True
    note_api_call("POST", "/b", began=2.0, seconds=0.1, error="")

    assert [step.attributes["url.path"] for step in trace.steps] == ["/a"]


@pytest.mark.usefixtures("exporter")
@pytest.mark.parametrize("path", ["", "/", "/v1/traces"])
async def test_spans_reach_a_collector_before_the_server_ends(tmp_path: Path, path: str) -> None:
    got: list[tuple[str, bytes]] = []

    async def collect(request: web.BaseRequest) -> web.StreamResponse:
        got.append((request.path, await request.read()))
        return web.Response()

    async with loopback.serving(collect) as url:
        options = replace(make_options(tmp_path, view=NODES), tracing=TracingOptions(url + path, 1.0))
        async with Server(options).running() as server:
            await ask(server, "filter", names_request(NODES, pod=make_pod("web-7")))

    assert {where for where, _ in got} == {"/v1/traces"}
    body = b"".join(content for _, content in got)
    assert b"web-7" in body
    assert b"filter obedient" in body


def test_without_opentelemetry_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("opentelemetry")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "bayplan.ops.otel", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)

    with pytest.raises(TracingError, match=r"pip install 'bayplan\[otel\]'"):
        open_tracing(TracingOptions("http://127.0.0.1:4318"), version="test")


def configured(folder: Path, **tracing: Any) -> Any:
    path = write_config(folder)
    path.write_text(path.read_text() + f"tracing: {tracing}\n")
    return load_all([], Flags(config=path))


def test_it_is_off_unless_there_is_an_endpoint(tmp_path: Path) -> None:
    off = configured(tmp_path / "off", sampleRatio=0.5)
    on = configured(tmp_path / "on", sampleRatio=0.5, otlpEndpoint="https://collector:4318")

    assert options_from(off, version="test").tracing is None
    assert options_from(on, version="test").tracing == TracingOptions("https://collector:4318", 0.5)
    assert needs_restart(off, on) == ["tracing.otlpEndpoint"]


@pytest.mark.parametrize(
    ("tracing", "wrong"),
    [
        pytest.param({"otlpEndpoint": "collector:4317"}, "no address of OTLP over HTTP", id="no scheme"),
        pytest.param({"sampleRatio": 1.5}, "sampleRatio", id="more than all"),
        pytest.param({"endpoint": "http://a"}, "endpoint", id="another key"),
    ],
)
def test_a_wrong_setting_is_an_error(tmp_path: Path, tracing: dict[str, Any], wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong):
        options_from(configured(tmp_path, **tracing), version="test")
