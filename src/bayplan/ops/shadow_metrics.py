"""Metrics of a candidate beside the live configuration: how often it disagrees, and what it costs."""

from collections.abc import Iterable, Sequence
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from bayplan.engine.differ import Difference
from bayplan.engine.shadowing import RESULTS

_VERB_RESULTS = {
    "filter": [result for result in RESULTS if result != "other_node"],
    "prioritize": ["same", "other_node", "failed", "skipped"],
}


class ShadowMetrics:
    """Counts of comparisons."""

    def __init__(self, registry: CollectorRegistry, *, buckets: Sequence[float]) -> None:
        counter = partial(Counter, registry=registry)
        gauge = partial(Gauge, registry=registry)
        self.decisions = counter(
            "bayplan_shadow_decisions",
            "Calls that a candidate judged too: same, refuses_more, accepts_more, mixed, other_node, failed"
            " (it had no answer), skipped (it was behind).",
            ["verb", "result"],
        )
        self.nodes = counter(
            "bayplan_shadow_nodes",
            "Nodes that a candidate refuses and the live policies do not, or accepts and they do not.",
            ["difference"],
        )
        self.pods = counter(
            "bayplan_shadow_pods",
            "Filter calls after which the pod would have no node, refused, or would have one, admitted.",
            ["turn"],
        )
        self.duration = Histogram(
            "bayplan_shadow_duration_seconds",
            "Time that a candidate's policies took for one call.",
            ["verb"],
            buckets=buckets,
            registry=registry,
        )
        self.waiting = gauge("bayplan_shadow_waiting", "Calls that wait for a candidate.")
        self.generation = gauge(
            "bayplan_shadow_generation",
            "Which candidate is at work: 1 for the first, one more with each reload; 0 for none.",
        )
        self.reload_ok = gauge(
            "bayplan_shadow_last_reload_successful",
            "0 while a changed candidate is refused and the old one stays.",
        )
        self.reload_ok.set(1)

    def begin_at_zero(self, verbs: Iterable[str]) -> None:
        """Create the series at 0: `increase` would miss the first event of a new series."""
        for verb in verbs:
            for result in _VERB_RESULTS[verb]:
                self.decisions.labels(verb, result)
        for difference in ("refuses", "accepts"):
            self.nodes.labels(difference)
        for turn in ("refused", "admitted"):
            self.pods.labels(turn)

    def compared(self, verb: str, difference: Difference, *, seconds: float) -> None:
        """Count a comparison."""
        self.decisions.labels(verb, difference.result).inc()
        self.nodes.labels("refuses").inc(difference.refused)
        self.nodes.labels("accepts").inc(difference.accepted)
        if difference.turn:
            self.pods.labels(difference.turn).inc()
        self.duration.labels(verb).observe(seconds)

    def reloaded(self, result: str) -> None:
        """Note a reload of the candidate: ok or refused."""
        self.reload_ok.set(result == "ok")
