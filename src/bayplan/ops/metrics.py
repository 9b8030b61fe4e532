"""Prometheus metrics. kube-scheduler has none for the time it spends in an extender: these are all."""

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from bayplan.engine.decision import Decision
from bayplan.engine.guard import Failure
from bayplan.engine.preempt import PreemptDecision

# Texts come from policies: a policy which writes numbers into them must not fill the server's memory.
_REASONS_LIMIT = 200
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_BYTES = (1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 2.5e8)
CONTENT_TYPE = CONTENT_TYPE_LATEST

# A second series beside each counter, which nobody asks for.
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """Counts and durations, by verb, by policy and by reason."""

    def __init__(self, *, version: str) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        info = Gauge("bayplan_info", "Version of Bayplan.", ["version"], registry=self.registry)
        info.labels(version).set(1)
        self.requests = Counter(
            "bayplan_requests",
            "Requests by verb and result: ok, error (a policy failed), invalid (bad bytes), overload.",
            ["verb", "result"],
            registry=self.registry,
        )
        self.duration = Histogram(
            "bayplan_request_duration_seconds",
            "From the last byte of the request to the first of the answer.",
            ["verb"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.size = Histogram(
            "bayplan_request_size_bytes",
            "Size of request bodies.",
            ["verb"],
            buckets=_BYTES,
            registry=self.registry,
        )
        self.in_flight = Gauge(
            "bayplan_requests_in_flight", "Requests being answered.", registry=self.registry
        )
        self.connections = Gauge("bayplan_connections", "Open connections.", registry=self.registry)
        self.nodes = Counter(
            "bayplan_nodes",
            "Nodes that policies judged, by verb and verdict.",
            ["verb", "verdict"],
            registry=self.registry,
        )
        self.rejections = Counter(
            "bayplan_rejections",
            "Nodes refused, by policy and reason; mode is observe or shadow where nothing was changed.",
            ["policy", "reason", "mode"],
            registry=self.registry,
        )
        self.policy_duration = Histogram(
            "bayplan_policy_duration_seconds",
            "Time in one hook of a policy.",
            ["policy", "hook"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.policy_failures = Counter(
            "bayplan_policy_failures",
            "Hooks that failed, by kind: exception, bad-result, unknown-node, overrun.",
            ["policy", "kind"],
            registry=self.registry,
        )
        self.policy_healthy = Gauge(
            "bayplan_policy_healthy",
            "0 while a thread of the policy is stuck past its deadline, and for a minute after an overrun.",
            ["policy"],
            registry=self.registry,
        )
        self.view_nodes = Gauge("bayplan_view_nodes", "Nodes in the server's view.", registry=self.registry)
        self.view_pods = Gauge(
            "bayplan_view_pods", "Unfinished pods in the server's view.", registry=self.registry
        )
        self.view_age = Gauge("bayplan_view_age_seconds", "Age of the server's view.", registry=self.registry)
        self.drift = Gauge(
            "bayplan_view_drift",
            "Differences between the view and a fresh list, at the last look; there must be none.",
            registry=self.registry,
        )
        self.assumed = Gauge(
            "bayplan_assumed_pods",
            "Pods that are bound, or being bound, and not yet confirmed by the watch.",
            registry=self.registry,
        )
        self.unsettled = Gauge(
            "bayplan_unsettled_binds", "Binds whose outcome is not known yet.", registry=self.registry
        )
        self.unaccounted = Gauge(
            "bayplan_unaccounted_pods",
            "Pods that hold a managed resource and were not bound by us; they count on every device.",
            registry=self.registry,
        )
        self.overcommitted = Gauge(
            "bayplan_overcommitted_devices",
            "Devices of which more was given than there is, at the last look; there must be none.",
            registry=self.registry,
        )
        self.nudges = Counter("bayplan_nudges", "Waiting pods that were touched.", registry=self.registry)
        self.writer = Gauge(
            "bayplan_writer",
            "1 while this server may bind: it holds the Lease, or needs none.",
            registry=self.registry,
        )
        self.source_up = Gauge(
            "bayplan_source_up",
            "1 when the last question to a source had an answer.",
            ["source"],
            registry=self.registry,
        )
        self.source_age = Gauge(
            "bayplan_source_age_seconds", "Age of a source's values.", ["source"], registry=self.registry
        )
        self.source_duration = Histogram(
            "bayplan_source_duration_seconds",
            "Time that a source took to answer, or not to.",
            ["source"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.source_failures = Counter(
            "bayplan_source_failures",
            "Questions to a source that had no answer.",
            ["source"],
            registry=self.registry,
        )
        self.generation = Gauge(
            "bayplan_generation",
            "Which configuration is at work: 1 from the start, one more with each reload.",
            registry=self.registry,
        )
        self.reloads = Counter(
            "bayplan_reloads",
            "Reloads of the configuration: ok, or refused where the old one stays.",
            ["result"],
            registry=self.registry,
        )
        self._reasons: set[tuple[str, str]] = set()

    def decided(self, verb: str, decision: Decision, *, observe: bool) -> None:
        """Count what a decision says."""
        for outcome in decision.outcomes:
            hook = outcome.hook
            self.policy_duration.labels(hook.policy, hook.name).observe(outcome.seconds)
            if outcome.failure:
                self.failed(hook.policy, outcome.failure)
        mode = "observe" if observe else "decide"
        refused = 0
        for outcome, reason, rows in decision.groups():
            refused += len(rows)
            self.rejected(outcome.hook.policy, reason.text, len(rows), mode=mode)
        for outcome, reason, rows in decision.shadow_groups():
            self.rejected(outcome.hook.policy, reason.text, len(rows), mode="shadow")
        self.nodes.labels(verb, "refused").inc(refused)
        self.nodes.labels(verb, "passed").inc(len(decision.nodes) - refused)
        if decision.not_in_view:
            self.nodes.labels(verb, "not-in-view").inc(len(decision.not_in_view))

    def preempted(self, decision: PreemptDecision, *, observe: bool) -> None:
        """Count what was said about candidates for preemption."""
        self.nodes.labels("preempt", "passed").inc(len(decision.kept))
        self.nodes.labels("preempt", "refused").inc(len(decision.dropped))
        for judged in decision.decisions:
            self.decided("preempt-filter", judged, observe=observe)

    def rejected(self, policy: str, reason: str, count: int, *, mode: str) -> None:
        """Count refused nodes; a reason past the limit is counted as ``other``."""
        if (policy, reason) not in self._reasons:
            if len(self._reasons) >= _REASONS_LIMIT:
                reason = "other"
            self._reasons.add((policy, reason))
        self.rejections.labels(policy, reason, mode).inc(count)

    def failed(self, policy: str, failure: Failure) -> None:
        """Count a hook's failure."""
        self.policy_failures.labels(policy, failure.kind).inc()

    def reloaded(self, result: str) -> None:
        """Count a reload: ok or refused."""
        self.reloads.labels(result).inc()

    def source_asked(self, source: str, seconds: float, error: str) -> None:
        """Count a question to a source."""
        self.source_duration.labels(source).observe(seconds)
        failures = self.source_failures.labels(source)
        if error:
            failures.inc()

    def render(self) -> bytes:
        """The text that Prometheus scrapes."""
        return generate_latest(self.registry)
