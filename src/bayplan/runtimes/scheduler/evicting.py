"""Makes room for a pod: those who have to leave are told so and deleted, and the node is kept for the pod.

As in kube-scheduler: who is leaving already is not told again, the last one is told after all others, and if
one cannot be told the pod is tried again, with the room that those who do leave make kept for it.
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
        """``evicted`` is told who was asked to leave, and for which pod."""
        self._client = client
        self._evicted = evicted
        self._seconds = timeout_seconds
        self._inbox = inbox
        self._reporter = reporter
        self._metrics = metrics
        self.why_not: Callable[[], str] = str
        """Why we may not act at this moment; ``""`` when we may."""
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, waiting: Waiting, eviction: Eviction, *, helped_by: News, by: frozenset[str]) -> None:
        """Keep the node for the pod at once, and tell the victims; the pod waits for them to be gone."""
        nominations = self._inbox.nominations
        pod = waiting.pod
        for other in nominations.after(pod, eviction.node):
            # They would not fit beside the pod, and need not wait for this to find out.
            nominations.drop(other.uid)
            self._inbox.queue.wake(other.uid)
            self._inbox.wake.set()
        self._inbox.keep(pod, eviction.node, {victim.uid for victim in eviction.victims})
        task = asyncio.create_task(self._evict(waiting, eviction, helped_by | news.PODS, by))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Give up what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _evict(self, waiting: Waiting, eviction: Eviction, helped_by: News, by: frozenset[str]) -> None:
        pod = waiting.pod
        leaving = {victim.uid for victim in eviction.victims if victim.terminating}
        to_tell = [victim for victim in eviction.victims if victim.uid not in leaving]
        # The last one alone, and only if all others have been told: if not, he may not have to leave at all.
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
            # Their room is the pod's, once they are gone; who else has to go is looked at then.
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
            # No longer than a bind: whoever takes over waits for that, and for nothing else.
            if await evict_pod(self._client, victim, message=message, timeout_seconds=self._seconds):
                self._reporter.preempted(victim, by=pod)
                log.info("pod %s leaves %s for %s", victim.key, victim.node_name, pod.key, extra=about)
        except (ApiError, ConnectError) as error:
            log.warning("pod %s could not be evicted for %s: %s", victim.key, pod.key, error, extra=about)
            return False
        except Exception:
            # Whatever it is, the pod must come back to the queue.
            log.exception("pod %s could not be evicted for %s", victim.key, pod.key, extra=about)
            return False
        return True
