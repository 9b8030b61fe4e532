"""Metrics of sources: whether they answer, how old their values are, and for how many nodes they have one."""

from collections.abc import Sequence
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class SourceMetrics:
    """Counts of questions, and how each source is."""

    def __init__(self, registry: CollectorRegistry, *, buckets: Sequence[float]) -> None:
        gauge = partial(Gauge, registry=registry)
        self.up = gauge(
            "bayplan_source_up", "1 when the last question to a source had an answer.", ["source"]
        )
        self.nodes = gauge("bayplan_source_nodes", "Nodes in view that a source has a value for.", ["source"])
        self.age = gauge("bayplan_source_age_seconds", "Age of a source's values.", ["source"])
        self.max_age = gauge(
            "bayplan_source_max_age_seconds", "The age from which on values are missing.", ["source"]
        )
        self.duration = Histogram(
            "bayplan_source_duration_seconds",
            "Time that a source took to answer, or not to.",
            ["source"],
            buckets=buckets,
            registry=registry,
        )
        self.failures = Counter(
            "bayplan_source_failures",
            "Questions to a source that had no answer.",
            ["source"],
            registry=registry,
        )

    def asked(self, source: str, seconds: float, error: str) -> None:
        """Count a question to a source; ``error`` is empty where it had an answer."""
        self.duration.labels(source).observe(seconds)
        failures = self.failures.labels(source)
        if error:
            failures.inc()

    def forget(self) -> None:
        """Begin anew to say how sources are: some may be gone since a reload."""
        for each in (self.up, self.nodes, self.age, self.max_age):
            each.clear()
