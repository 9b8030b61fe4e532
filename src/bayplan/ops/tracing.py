"""Collects the steps of a request while it is answered, to be exported as spans afterwards.

Nothing is measured only for traces: hooks are timed anyway, and so are requests to the
API server. Where tracing is off there is no current `Trace`, and all of this is one look at a variable.
"""

import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal, Protocol

from bayplan.engine.guard import Attempt


class TracingError(Exception):
    """Traces cannot be sent; the text says why."""


@dataclass(frozen=True)
class TracingOptions:
    """Where spans go, and of how many requests."""

    endpoint: str
    """Of a collector that speaks OTLP over HTTP; ``/v1/traces`` is added where there is no path."""
    sample_ratio: float = 0.1


@dataclass(frozen=True)
class Step:
    """A part of a request that took time."""

    name: str
    kind: Literal["hook", "api", "part"]
    began: float
    seconds: float
    attributes: Mapping[str, str | int]
    error: str = ""
    within: str = ""
    """The step that it is a part of, by name; ``""`` for the request itself."""


@dataclass
class Trace:
    """One request, or one attempt of a scheduler; times are those of `time.perf_counter`."""

    verb: str
    generation: int
    headers: Mapping[str, str] = field(default_factory=dict)
    """Of the request; none where nobody called."""
    began: float = field(default_factory=time.perf_counter)
    pod: str = ""
    """``namespace/name``."""
    node: str = ""
    steps: list[Step] = field(default_factory=list)
    ended: bool = False


class Tracing(Protocol):
    """Receives traces."""

    def tell(self, trace: Trace, *, seconds: float, result: str, error: str) -> None:
        """Hand on a request that was answered."""
        ...

    def close(self) -> None:
        """Send what is left; this waits."""
        ...


_current: ContextVar[Trace | None] = ContextVar("bayplan_trace", default=None)


def open_tracing(options: TracingOptions, *, version: str) -> Tracing:
    """Begin to send spans; `TracingError` where OpenTelemetry is not installed."""
    try:
        from bayplan.ops.otel import OtelTracing, exporter_to  # noqa: PLC0415 - an extra, and not a small one
    except ImportError as error:
        raise TracingError(
            f"tracing.otlpEndpoint needs OpenTelemetry ({error}): pip install 'bayplan[otel]'"
        ) from error
    exporter = exporter_to(options.endpoint)
    return OtelTracing(exporter, sample_ratio=options.sample_ratio, version=version)


def begin(verb: str, generation: int, headers: Mapping[str, str]) -> Trace:
    """A trace for the request that this task answers from now on."""
    trace = Trace(verb, generation, headers)
    _current.set(trace)
    return trace


def note_pod(pod: str, *, node: str = "") -> None:
    """The request is about this pod."""
    trace = current_trace()
    if trace is not None:
        trace.pod, trace.node = pod, node


def note_hooks(attempt: Attempt | None, *, within: str = "") -> None:
    """The hooks that were called in a try at the request."""
    trace = current_trace()
    if trace is None or attempt is None:
        return
    trace.pod = attempt.pod or trace.pod
    for ran in attempt.ran.values():
        hook = ran.hook
        said: dict[str, str | int] = {
            "bayplan.policy": hook.policy,
            "bayplan.hook": hook.name,
            "bayplan.point": hook.spec.kind,
            "bayplan.calls": ran.calls,
        }
        name, failed = f"{hook.spec.kind} {hook.policy}", ", ".join(ran.failures)
        trace.steps.append(Step(name, "hook", ran.began, ran.seconds, said, failed, within))


def note_part(
    name: str, *, began: float, said: Mapping[str, str | int] | None = None, error: str = ""
) -> None:
    """A part of it ends now; ``said`` are its attributes."""
    trace = current_trace()
    if trace is not None:
        trace.steps.append(Step(name, "part", began, time.perf_counter() - began, said or {}, error))


def note_api_call(method: str, path: str, *, began: float, seconds: float, error: str) -> None:
    """A request to the API server, made while this one waits."""
    trace = current_trace()
    if trace is not None:
        said: dict[str, str | int] = {"http.request.method": method, "url.path": path}
        trace.steps.append(Step(f"API server {method}", "api", began, seconds, said, error))


def current_trace() -> Trace | None:
    """The current trace; ``None`` for background work after the answer."""
    trace = _current.get()
    return None if trace is None or trace.ended else trace
