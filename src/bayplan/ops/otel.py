"""Exports traces as OpenTelemetry spans: one per request or attempt, with one per hook and API call below it.

Only this file imports OpenTelemetry, and it is imported only if traces are enabled.
"""

import time
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from bayplan.ops.tracing import Step, Trace

_TIMEOUT_SECONDS = 5
_NANOSECONDS = 1_000_000_000
_KINDS = {"hook": SpanKind.INTERNAL, "api": SpanKind.CLIENT, "part": SpanKind.INTERNAL}


def exporter_to(endpoint: str) -> SpanExporter:
    """Sends spans to a collector; credentials come from ``OTEL_EXPORTER_OTLP_HEADERS``."""
    bare = urlsplit(endpoint).path in ("", "/")
    url = endpoint.rstrip("/") + "/v1/traces" if bare else endpoint
    return OTLPSpanExporter(endpoint=url, timeout=_TIMEOUT_SECONDS)


class OtelTracing:
    """Hands traces to an exporter, in the background and in batches."""

    def __init__(self, exporter: SpanExporter, *, sample_ratio: float, version: str) -> None:
        # A caller with a trace of its own decides whether ours is sampled.
        sampler = ParentBased(TraceIdRatioBased(sample_ratio))
        resource = Resource.create({"service.name": "bayplan", "service.version": version})
        self._provider = TracerProvider(sampler=sampler, resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("bayplan", version)
        self._propagator = TraceContextTextMapPropagator()

    def tell(self, trace: Trace, *, seconds: float, result: str, error: str) -> None:
        """Hand on a request that was answered."""
        trace.ended = True
        # Both clocks are read once per trace, so that its parts keep their relative times.
        offset = time.time_ns() - time.perf_counter_ns()
        caller = {name.lower(): value for name, value in trace.headers.items()}
        span = self._tracer.start_span(
            trace.verb,
            context=self._propagator.extract(caller),
            kind=SpanKind.SERVER if trace.headers else SpanKind.INTERNAL,
            attributes=_attributes(trace, result),
            start_time=_nanoseconds(trace.began, offset),
        )
        if span.is_recording():
            first = [step for step in trace.steps if not step.within]
            parts = {step.name: self._tell_step(step, span, offset) for step in first}
            for step in trace.steps:
                if step.within:
                    self._tell_step(step, parts.get(step.within, span), offset)
        _fail(span, error)
        span.end(_nanoseconds(trace.began + seconds, offset))

    def flush(self) -> None:
        """Send what there is so far; this waits."""
        self._provider.force_flush()

    def close(self) -> None:
        """Send what is left; this waits."""
        self._provider.shutdown()

    def _tell_step(self, step: Step, parent: Span, offset: int) -> Span:
        span = self._tracer.start_span(
            step.name,
            context=set_span_in_context(parent),
            kind=_KINDS[step.kind],
            attributes=step.attributes,
            start_time=_nanoseconds(step.began, offset),
        )
        _fail(span, step.error)
        span.end(_nanoseconds(step.began + step.seconds, offset))
        return span


def _attributes(trace: Trace, result: str) -> dict[str, str | int]:
    namespace, _, name = trace.pod.rpartition("/")
    known = {
        "k8s.namespace.name": namespace,
        "k8s.pod.name": name,
        "k8s.node.name": trace.node,
        "bayplan.verb": trace.verb,
        "bayplan.result": result,
    }
    said: dict[str, str | int] = {key: value for key, value in known.items() if value}
    return said | {"bayplan.generation": trace.generation}


def _fail(span: Span, error: str) -> None:
    if error:
        span.set_status(Status(StatusCode.ERROR, error))


def _nanoseconds(at: float, offset: int) -> int:
    return int(at * _NANOSECONDS) + offset
