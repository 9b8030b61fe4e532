"""What became of a pod that was sent to a node: it is there, or it comes back; and people are told."""

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
    """A pod that goes to a node."""

    waiting: Waiting
    pod: Pod
    """As it was when that was decided."""
    node: str
    kept: Kept | None
    """Its volumes, where they waited for it."""
    term: int
    """Of the Lease, when that was decided."""
    began: float


class Outcomes:
    """Where all placements end."""

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
        """``on_bind`` is told of each bind with its node, and what was wrong with it.

        ``on_bound`` is told of each pod that has its node, as it is there.
        """
        self._cache = cache
        self._inbox = inbox
        self._reporter = reporter
        self._metrics = metrics
        self._on_bind = on_bind
        self._on_bound = on_bound

    def ended(self, one: Placement, problem: str) -> None:
        """Bring the pod back where it has no node, and tell what became of it."""
        pod, now = one.pod, self._cache.pod(one.pod.key)
        same = now is not None and now.uid == pod.uid
        self._inbox.binding.discard(pod.uid)
        # First of all: whatever goes wrong with telling, the pod must be somewhere.
        if now is not None and same and not now.node_name:
            self._back(one, now, problem)
            return
        self._inbox.queue.drop(pod.uid)
        self._on_bind(pod, one.node, problem)
        # Else it is gone, or somebody else was faster: the watch has told, or will.
        if now is not None and same and now.node_name == one.node:
            self._bound(one, now)

    def not_sent(self, waiting: Waiting, node: str, problem: str, *, began: float) -> None:
        """The pod comes again: it could not even be sent. ``""`` is a problem of which nobody is told."""
        pod = waiting.pod
        self._inbox.failed(waiting)
        if not problem:
            return
        log.info("pod %s does not go to %s: %s", pod.key, node, problem, extra={"pod": pod.key})
        self._on_bind(pod, node, problem)
        self._metrics.attempted("error", pod.scheduler_name, seconds=time.perf_counter() - began)
        # Room that was made for it is still kept.
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
