"""Makes room for a pod: those who have to leave are told so and deleted, and the node is kept for the pod."""

import asyncio
import logging

from bayplan.client.errors import ApiError, ConnectError
from bayplan.client.evict import evict_pod
from bayplan.client.rest import ApiClient
from bayplan.engine.make_room import Eviction
from bayplan.kube.pod import Pod
from bayplan.ops.schedule_metrics import ScheduleMetrics
from bayplan.runtimes.scheduler.inbox import Inbox
from bayplan.runtimes.scheduler.queue import News, Waiting
from bayplan.runtimes.scheduler.report import Reporter

log = logging.getLogger(__name__)

PODS: News = frozenset({"pods"})


class Evicting:
    """The evictions that are under way."""

    def __init__(self, client: ApiClient, inbox: Inbox, reporter: Reporter, metrics: ScheduleMetrics) -> None:
        self._client = client
        self._inbox = inbox
        self._reporter = reporter
        self._metrics = metrics
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, waiting: Waiting, eviction: Eviction, *, helped_by: News, by: frozenset[str]) -> None:
        """Keep the node for the pod at once, and tell the victims; the pod waits for them to be gone."""
        nominations = self._inbox.nominations
        pod = waiting.pod
        for other in nominations.after(pod, eviction.node):
            # They would not fit beside the pod; whoever leaves now wakes them, to look elsewhere.
            nominations.drop(other.uid)
        nominations.keep(pod, eviction.node, {victim.uid for victim in eviction.victims})
        task = asyncio.create_task(self._evict(waiting, eviction, helped_by | PODS, by))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Give up what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _evict(self, waiting: Waiting, eviction: Eviction, helped_by: News, by: frozenset[str]) -> None:
        pod = waiting.pod
        done = await asyncio.gather(*(self._leave(victim, pod) for victim in eviction.victims))
        if all(done):
            self._metrics.victims.observe(len(eviction.victims))
            self._inbox.refused(waiting, helped_by=helped_by, by=by)
            return
        self._inbox.nominations.drop(pod.uid)
        self._inbox.failed(waiting)

    async def _leave(self, victim: Pod, pod: Pod) -> bool:
        about = {"pod": victim.key, "node": victim.node_name}
        message = f"{pod.scheduler_name}: preempting to accommodate a higher priority pod"
        try:
            if await evict_pod(self._client, victim, message=message):
                self._reporter.preempted(victim, by=pod)
                log.info("pod %s leaves %s for %s", victim.key, victim.node_name, pod.key, extra=about)
        except (ApiError, ConnectError) as error:
            log.warning("pod %s could not be evicted for %s: %s", victim.key, pod.key, error, extra=about)
            return False
        return True
