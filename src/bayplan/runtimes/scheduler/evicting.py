"""Evicts the victims of a preemption, and nominates their node for the pod.

As in kube-scheduler: terminating victims are not evicted again, the last victim is evicted after all others,
and if one eviction fails the pod is retried, with the node of the evicted ones kept for it.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from bayplan.client.errors import ApiError, ConnectError
from bayplan.client.evict import evict_pod
from bayplan.client.rest import ApiClient
from bayplan.engine.make_room import Eviction
from bayplan.kube.pod import Pod
from bayplan.ops.schedule_metrics import ScheduleMetrics
from bayplan.runtimes.scheduler.inbox import Inbox
from bayplan.runtimes.scheduler.queue import News, Waiting
from bayplan.runtimes.scheduler.report import Reporter
from bayplan.state import news

log = logging.getLogger(__name__)


class Evicting:
    """The evictions that are under way."""

    def __init__(
        self,
        client: ApiClient,
        inbox: Inbox,
        reporter: Reporter,
        metrics: ScheduleMetrics,
        *,
        timeout_seconds: float,
        evicted: Callable[[Sequence[Pod], Pod], None] = lambda *_: None,
    ) -> None:
        """``evicted`` gets the evicted pods and the pod that they were evicted for."""
        self._client = client
        self._evicted = evicted
        self._seconds = timeout_seconds
        self._inbox = inbox
        self._reporter = reporter
        self._metrics = metrics
        self.why_not: Callable[[], str] = str
        """Why this server may not evict now; ``""`` if it may."""
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, waiting: Waiting, eviction: Eviction, *, helped_by: News, by: frozenset[str]) -> None:
        """Nominate the node for the pod at once, and evict the victims; the pod waits until they are gone."""
        nominations = self._inbox.nominations
        pod = waiting.pod
        for other in nominations.after(pod, eviction.node):
            # Less important pods nominated there would not fit beside this one: let them look again now.
            nominations.drop(other.uid)
            self._inbox.queue.wake(other.uid)
            self._inbox.wake.set()
        self._inbox.keep(pod, eviction.node, {victim.uid for victim in eviction.victims})
        task = asyncio.create_task(self._evict(waiting, eviction, helped_by | news.PODS, by))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Cancel evictions under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _evict(self, waiting: Waiting, eviction: Eviction, helped_by: News, by: frozenset[str]) -> None:
        pod = waiting.pod
        leaving = {victim.uid for victim in eviction.victims if victim.terminating}
        to_tell = [victim for victim in eviction.victims if victim.uid not in leaving]
        # The last victim by itself, and only if all others were evicted: else it may not have to leave.
        for some in (to_tell[:-1], to_tell[-1:]):
            told = await asyncio.gather(*(self._leave(victim, pod) for victim in some))
            left = [victim for victim, done in zip(some, told, strict=True) if done]
            leaving.update(victim.uid for victim in left)
            if left:
                self._evicted(left, pod)
            if not all(told):
                break
        if len(leaving) == len(eviction.victims):
            if to_tell:
                self._metrics.victims.observe(len(eviction.victims))
            self._inbox.refused(waiting, helped_by=helped_by, by=by)
            return
        if leaving and pod.uid in self._inbox.queue:
            # The room of the evicted ones stays reserved; the next attempt decides about further victims.
            self._inbox.keep(pod, eviction.node, leaving)
        else:
            self._inbox.give_back(pod.uid)
        self._inbox.failed(waiting)

    async def _leave(self, victim: Pod, pod: Pod) -> bool:
        about = {"pod": victim.key, "node": victim.node_name}
        message = f"{pod.scheduler_name}: preempting to accommodate a higher priority pod"
        if pod.uid not in self._inbox.queue:
            log.info("pod %s stays: %s is gone", victim.key, pod.key, extra=about)
            return False
        if problem := self.why_not():
            log.info("pod %s stays: %s", victim.key, problem, extra=about)
            return False
        try:
            # No longer than a bind: a new leader waits out that time only.
            if await evict_pod(self._client, victim, message=message, timeout_seconds=self._seconds):
                self._reporter.preempted(victim, by=pod)
                log.info("pod %s leaves %s for %s", victim.key, victim.node_name, pod.key, extra=about)
        except (ApiError, ConnectError) as error:
            log.warning("pod %s could not be evicted for %s: %s", victim.key, pod.key, error, extra=about)
            return False
        except Exception:
            # Whatever the error, the pod must go back to the queue.
            log.exception("pod %s could not be evicted for %s", victim.key, pod.key, extra=about)
            return False
        return True
