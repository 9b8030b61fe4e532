"""Prometheus metrics of Bayplan. kube-scheduler itself has none about the time it spends in an extender."""

import platform
from collections.abc import Iterable
from functools import partial
from typing import get_args

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

from bayplan.authoring.editions import current_edition
from bayplan.authoring.verdict import Reason
from bayplan.engine.decision import Decision
from bayplan.engine.guard import Attempt, FailureKind
from bayplan.engine.preempt import PreemptDecision
from bayplan.ops.children import Children
from bayplan.ops.own import Families, render_own
from bayplan.ops.shadow_metrics import ShadowMetrics
from bayplan.ops.source_metrics import SourceMetrics

# Reasons come from policies: one that writes numbers into them must not fill the server's memory.
_REASONS_LIMIT = 200
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_BYTES = (1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 2.5e8)
_RESULTS = ("ok", "error", "invalid", "overload")
CONTENT_TYPE = CONTENT_TYPE_LATEST

# Disable the ``_created`` series beside each counter.
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """Counts and durations, by verb, by policy and by reason."""

    def __init__(self, *, version: str, verbs: Iterable[str] = ()) -> None:
        self.registry = CollectorRegistry()
        self.edition = current_edition()
        """The edition of the current policies, which may have metrics of their own."""
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        seconds = partial(Histogram, buckets=_SECONDS, registry=self.registry)
        gauge("bayplan_info", "Versions of Bayplan and of Python.", ["version", "python"]).labels(
            version, platform.python_version()
        ).set(1)
        self.health = gauge(
            "bayplan_health_check", "1 where a check behind /livez or /readyz passes.", ["check", "endpoint"]
        )
        self.requests = counter(
            "bayplan_requests",
            "Requests by verb and result: ok, error (a policy failed), invalid (bad bytes), overload.",
            ["verb", "result"],
        )
        self.duration = seconds(
            "bayplan_request_duration_seconds",
            "From the last byte of the request to the first of the answer.",
            ["verb"],
        )
        self.size = Histogram(
            "bayplan_request_size_bytes",
            "Size of request bodies.",
            ["verb"],
            buckets=_BYTES,
            registry=self.registry,
        )
        self.in_flight = gauge("bayplan_requests_in_flight", "Requests being answered.")
        self.connections = gauge("bayplan_connections", "Open connections.")
        self.nodes = counter(
            "bayplan_nodes", "Nodes that policies judged, by verb and verdict.", ["verb", "verdict"]
        )
        self.scores_ahead = counter(
            "bayplan_scores_ahead",
            "Scores worked out before kube-scheduler asked for them, by whether it then did.",
            ["result"],
        )
        self.known = counter(
            "bayplan_known_answers",
            "Requests that were answered without asking a policy, since pods like that one came before.",
            ["verb"],
        )
        self.rejections = counter(
            "bayplan_rejections",
            "Nodes refused, by policy and reason; mode is observe or shadow where nothing was changed.",
            ["policy", "reason", "mode"],
        )
        self.policy_duration = seconds(
            "bayplan_policy_duration_seconds",
            "Time in one hook of a policy for one request; point is the kind of hook.",
            ["policy", "hook", "point"],
        )
        self.policy_failures = counter(
            "bayplan_policy_failures",
            "Hooks that failed, by kind: exception, bad-result, unknown-node, overrun.",
            ["policy", "kind"],
        )
        self.policy_healthy = gauge(
            "bayplan_policy_healthy",
            "0 while a thread of the policy is stuck past its deadline, and for a minute after an overrun.",
            ["policy"],
        )
        self.bound_dropped = counter(
            "bayplan_bound_dropped",
            "Binds that a `bound` hook was not told of: too many waited, or the node was gone.",
        )
        self.view_nodes = gauge("bayplan_view_nodes", "Nodes in the server's view.")
        self.view_pods = gauge("bayplan_view_pods", "Unfinished pods in the server's view.")
        self.view_age = gauge("bayplan_view_age_seconds", "Age of the server's view.")
        self.view_max_age = gauge(
            "bayplan_view_max_age_seconds",
            "The age from which on the server is not ready; infinite for a file, which does not change.",
        )
        self.drift = gauge(
            "bayplan_view_drift",
            "Differences between the view and a fresh list, at the last look; there must be none.",
        )
        self.assumed = gauge(
            "bayplan_assumed_pods", "Pods that are bound, or being bound, and not yet confirmed by the watch."
        )
        self.unsettled = gauge("bayplan_unsettled_binds", "Binds whose outcome is not known yet.")
        self.unaccounted = gauge(
            "bayplan_unaccounted_pods",
            "Pods that hold a managed resource and were not bound by us; they count on every device.",
        )
        self.rewritten = gauge(
            "bayplan_rewritten_allocations",
            "Bound pods whose allocation somebody rewrote; they count on both devices.",
        )
        self.overcommitted = gauge(
            "bayplan_overcommitted_devices",
            "Devices of which more was given than there is, at the last look; there must be none.",
        )
        self.nudges = counter("bayplan_nudges", "Waiting pods that were touched.")
        self.writer = gauge(
            "bayplan_writer",
            "1 while this server may bind; lease is the Lease that it must hold, empty where it needs none.",
            ["lease"],
        )
        self.sources = SourceMetrics(self.registry, buckets=_SECONDS)
        self.generation = gauge(
            "bayplan_generation",
            "Which configuration is at work: 1 from the start, one more with each reload.",
        )
        self.reloads = counter(
            "bayplan_reloads",
            "Reloads of the configuration: ok, or refused where the old one stays.",
            ["result"],
        )
        self.recordings = counter(
            "bayplan_recorded",
            "Decisions for the recording: written, dropped where the disk is too slow, failed.",
            ["result"],
        )
        self.journal_lines = counter(
            "bayplan_journal_lines",
            "Decisions for the journal on disk: written, dropped where it is too slow or full, failed.",
            ["result"],
        )
        self.reload_ok = gauge(
            "bayplan_last_reload_successful",
            "0 while a changed configuration is refused and the old one stays.",
        )
        self.reload_time = gauge(
            "bayplan_last_reload_success_timestamp_seconds", "When the configuration at work was loaded."
        )
        self.certificate_expiry = gauge(
            "bayplan_certificate_expiry_timestamp_seconds",
            "When the first certificate of a chain ends that is in use: server is our own.",
            ["use"],
        )
        self.loop_lag = seconds(
            "bayplan_event_loop_lag_seconds", "How late the event loop was, looked at about once a second."
        )
        self.shadow = ShadowMetrics(self.registry, buckets=_SECONDS)
        self._reasons: set[tuple[str, str]] = set()
        self._begin(verbs)

    def _begin(self, verbs: Iterable[str]) -> None:
        """Create the series at 0: `increase` would miss the first event of a new series."""
        self._count_for_every_pod()
        self.view_max_age.set(float("inf"))
        self.reload_ok.set(1)
        self.reload_time.set_to_current_time()
        for verb in verbs:
            for result in _RESULTS:
                self.requests.labels(verb, result)
        for result in ("ok", "refused"):
            self.reloads.labels(result)
        for result in ("written", "dropped", "failed"):
            self.journal_lines.labels(result)
        for verb in ("filter", "prioritize"):
            self.known.labels(verb)
        for result in ("used", "unused"):
            self.scores_ahead.labels(result)

    def _count_for_every_pod(self) -> None:
        self.request_of, self.duration_of = Children(self.requests), Children(self.duration)
        self.size_of, self._policy_duration_of = Children(self.size), Children(self.policy_duration)
        self.known_of = Children(self.known)
        self._nodes_of, self._rejections_of = Children(self.nodes), Children(self.rejections)

    def ran(self, attempt: Attempt) -> None:
        """Count the hooks that were called for one request."""
        for each in attempt.ran.values():
            hook = each.hook
            if each.calls:
                self._policy_duration_of(hook.policy, hook.name, hook.spec.kind).observe(each.seconds)
            for kind, count in each.failures.items():
                self.policy_failures.labels(hook.policy, kind).inc(count)

    def decided(self, verb: str, decision: Decision, *, observe: bool) -> None:
        """Count a decision."""
        groups = [(outcome.hook.policy, reason, len(rows)) for outcome, reason, rows in decision.groups()]
        self.judged(verb, groups, of=len(decision.nodes), mode="observe" if observe else "decide")
        for outcome, reason, rows in decision.shadow_groups():
            self.rejected(outcome.hook.policy, reason.text, len(rows), mode="shadow")
        if decision.not_in_view:
            self._nodes_of(verb, "not-in-view").inc(len(decision.not_in_view))

    def judged(
        self, verb: str, refused: Iterable[tuple[str, Reason, int]], *, of: int, mode: str = "decide"
    ) -> None:
        """Count the refused nodes by policy and reason, and the nodes that passed."""
        count = 0
        for policy, reason, nodes in refused:
            count += nodes
            self.rejected(policy, reason.text, nodes, mode=mode)
        self._nodes_of(verb, "refused").inc(count)
        self._nodes_of(verb, "passed").inc(of - count)

    def prepared(self, result: str) -> None:
        """Count scores that were computed ahead of time: ``used`` or ``unused``."""
        self.scores_ahead.labels(result).inc()

    def left_out(self, nodes: int) -> None:
        """Count the nodes that passed a filter and were left out of the answer."""
        self._nodes_of("filter", "left-out").inc(nodes)

    def preempted(self, decision: PreemptDecision, *, observe: bool) -> None:
        """Count the candidates of a preemption."""
        self._nodes_of("preempt", "passed").inc(len(decision.kept))
        self._nodes_of("preempt", "refused").inc(len(decision.dropped))
        if decision.judged:
            refused = [(refusal.policy, refusal.reason, 1) for refusal in decision.refused]
            mode = "observe" if observe else "decide"
            self.judged("preempt-filter", refused, of=decision.judged, mode=mode)

    def rejected(self, policy: str, reason: str, count: int, *, mode: str) -> None:
        """Count refused nodes; a reason past the limit is counted as ``other``."""
        if (policy, reason) not in self._reasons:
            if len(self._reasons) >= _REASONS_LIMIT:
                reason = "other"
            self._reasons.add((policy, reason))
        self._rejections_of(policy, reason, mode).inc(count)

    def know_policies(self, health: dict[str, bool]) -> None:
        """Set the current policies, and whether each is healthy."""
        self.policy_healthy.clear()
        for policy, healthy in health.items():
            self.policy_healthy.labels(policy).set(healthy)
            for kind in get_args(FailureKind):
                self.policy_failures.labels(policy, kind)

    def recorded(self, result: str) -> None:
        """Count a decision in the recording: written, dropped or failed."""
        self.recordings.labels(result).inc()

    def journaled(self, result: str) -> None:
        """Count a decision in the journal on disk: written, dropped or failed."""
        self.journal_lines.labels(result).inc()

    def reloaded(self, result: str) -> None:
        """Count a reload: ok or refused."""
        self.reloads.labels(result).inc()
        self.reload_ok.set(result == "ok")
        if result == "ok":
            self.reload_time.set_to_current_time()

    def render(self) -> bytes:
        """The text that Prometheus scrapes."""
        ours = Families(self.registry.collect())
        return generate_latest(ours) + render_own(self.edition, [family.name for family in ours])
