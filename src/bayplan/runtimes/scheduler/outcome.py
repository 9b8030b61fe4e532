"""Handles the outcome of a bind: reports it, and puts a pod that is not bound back into the queue."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from bayplan.kube.pod import Pod
from bayplan.ops.schedule_metrics import ScheduleMetrics
from bayplan.runtimes.scheduler.inbox import Inbox
from bayplan.runtimes.scheduler.report import Reporter
from bayplan.runtimes.scheduler.volumes_kept import Kept
from bayplan.runtimes.scheduler.waiting import Waiting
from bayplan.state import news
from bayplan.state.cache import Cache

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Placement:
    """A pod on its way to a node."""

    waiting: Waiting
    pod: Pod
    """The pod at the time of the decision."""
    node: str
    kept: Kept | None
    """The volumes kept for its claims, if any waited for it."""
    term: int
    """The term of the Lease at the time of the decision."""
    began: float


class Outcomes:
    """Handles the outcomes of all placements."""

    def __init__(
        self,
        cache: Cache,
        inbox: Inbox,
        reporter: Reporter,
        metrics: ScheduleMetrics,
        *,
        on_bind: Callable[[Pod, str, str], object],
        on_bound: Callable[[Pod, str], object],
    ) -> None:
        """``on_bind`` gets the pod, node and error of each bind; ``on_bound`` each bound pod and its node."""
        self._cache = cache
        self._inbox = inbox
        self._reporter = reporter
        self._metrics = metrics
        self._on_bind = on_bind
        self._on_bound = on_bound

    def ended(self, one: Placement, problem: str) -> None:
        """Put the pod back into the queue if it has no node, and report the result."""
        pod, now = one.pod, self._cache.pod(one.pod.key)
        same = now is not None and now.uid == pod.uid
        self._inbox.binding.discard(pod.uid)
        # The queue first: if a report fails, the pod must not be lost.
        if now is not None and same and not now.node_name:
            self._back(one, now, problem)
            return
        self._inbox.queue.drop(pod.uid)
        self._on_bind(pod, one.node, problem)
        # Else the pod is gone, or another scheduler bound it: the watch reports that.
        if now is not None and same and now.node_name == one.node:
            self._bound(one, now)

    def not_sent(self, waiting: Waiting, node: str, problem: str, *, began: float) -> None:
        """Retry a pod that could not be sent; without a ``problem`` nothing is reported."""
        pod = waiting.pod
        self._inbox.failed(waiting)
        if not problem:
            return
        log.info("pod %s does not go to %s: %s", pod.key, node, problem, extra={"pod": pod.key})
        self._on_bind(pod, node, problem)
        self._metrics.attempted("error", pod.scheduler_name, seconds=time.perf_counter() - began)
        # Its nomination still stands.
        kept = self._inbox.nominations.of(pod.uid)
        self._reporter.unscheduled(pod, "SchedulerError", problem, nominated_node=kept.node if kept else "")

    def _back(self, one: Placement, now: Pod, problem: str) -> None:
        self._inbox.pod_is(now)
        self._inbox.failed(one.waiting)
        self._inbox.told(news.PODS)
        self._on_bind(one.pod, one.node, problem)
        self._metrics.attempted("error", now.scheduler_name, seconds=time.perf_counter() - one.began)
        self._reporter.unscheduled(now, "SchedulerError", problem)

    def _bound(self, one: Placement, now: Pod) -> None:
        pod, node, waiting = one.pod, one.node, one.waiting
        self._metrics.attempted("scheduled", pod.scheduler_name, seconds=time.perf_counter() - one.began)
        self._metrics.bound(attempts=waiting.attempts, seconds=self._inbox.queue.seconds_since(waiting))
        self._reporter.scheduled(pod, node)
        self._on_bound(now, node)
        about = {"pod": pod.key, "node": node}
        log.info("pod %s is bound to %s, attempt %d", pod.key, node, waiting.attempts, extra=about)
