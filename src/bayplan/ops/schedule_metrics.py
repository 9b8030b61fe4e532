"""Metrics of ``bayplan schedule``: the names of kube-scheduler's, with our prefix."""

from collections.abc import Iterable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

RESULTS = ("scheduled", "unschedulable", "error")
_PLACES = ("active", "backoff", "unschedulable", "gated", "gang")
_ATTEMPT_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SLI_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120)
_VICTIMS = (1, 2, 4, 8, 16, 32, 64)


class ScheduleMetrics:
    """Counts and durations of attempts, of what waits, of evictions and of reports."""

    def __init__(self, registry: CollectorRegistry, *, profiles: Iterable[str] = ()) -> None:
        counter = partial(Counter, registry=registry)
        gauge = partial(Gauge, registry=registry)
        histogram = partial(Histogram, registry=registry)
        self.attempts = counter(
            "bayplan_schedule_attempts",
            "Attempts to place a pod: scheduled, unschedulable (no node would have it), error.",
            ["result", "profile"],
        )
        self.attempt_duration = histogram(
            "bayplan_scheduling_attempt_duration_seconds",
            "Time of one attempt, from the queue to the end of its bind, or to the refusal.",
            ["result", "profile"],
            buckets=_ATTEMPT_SECONDS,
        )
        self.algorithm_duration = histogram(
            "bayplan_scheduling_algorithm_duration_seconds",
            "Time in which one pod was judged.",
            buckets=_ATTEMPT_SECONDS,
        )
        self.sli_duration = histogram(
            "bayplan_pod_scheduling_sli_duration_seconds",
            "From when a pod was first seen without gates until it was bound, by how many attempts it took.",
            ["attempts"],
            buckets=_SLI_SECONDS,
        )
        self.pending = gauge(
            "bayplan_pending_pods",
            "Pods that wait, by queue: active, backoff, unschedulable, gated, gang.",
            ["queue"],
        )
        self.binding = gauge("bayplan_binds_in_flight", "Binds that were sent and not answered yet.")
        self.waiting_for_volumes = gauge(
            "bayplan_pods_waiting_for_volumes",
            "Pods that have a node and wait until their claims are bound there.",
        )
        self.victims = histogram(
            "bayplan_preemption_victims", "Pods that were evicted for one other.", buckets=_VICTIMS
        )
        self.reports = counter(
            "bayplan_schedule_reports",
            "Events and conditions about pods: written, dropped where too many wait, failed.",
            ["kind", "result"],
        )
        self.gangs = counter(
            "bayplan_gang_attempts",
            "Gangs that were placed, refused (one member did not fit), or waited longer than their timeout.",
            ["result"],
        )
        for result in ("placed", "refused", "timeout"):
            self.gangs.labels(result)
        self.know(profiles)
        for kind in ("event", "condition"):
            for result in ("written", "dropped", "failed"):
                self.reports.labels(kind, result)

    def know(self, profiles: Iterable[str]) -> None:
        """Create the series at 0: `increase` would miss the first event of a new series."""
        for profile in profiles:
            for result in RESULTS:
                self.attempts.labels(result, profile)

    def attempted(self, result: str, profile: str, *, seconds: float) -> None:
        """Count an attempt that has ended."""
        self.attempts.labels(result, profile).inc()
        self.attempt_duration.labels(result, profile).observe(seconds)

    def bound(self, *, attempts: int, seconds: float) -> None:
        """Count a pod that has its node, ``seconds`` after it was first seen."""
        # As in kube-scheduler: more than 15 attempts share one label value.
        self.sli_duration.labels(str(attempts) if attempts <= 15 else "15+").observe(seconds)

    def waiting(self, counts: dict[str, int]) -> None:
        """How many pods wait where."""
        for place in _PLACES:
            self.pending.labels(place).set(counts.get(place, 0))
