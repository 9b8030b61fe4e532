"""The loop: one pod after another, each judged on the cluster as it is with all who came before.

Only the judgement is one at a time. What follows from it, binds and evictions, goes on beside the loop.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from bayplan.engine.guard import Attempt
from bayplan.kube.meta import EMPTY
from bayplan.kube.pod import Pod
from bayplan.ops.schedule_metrics import ScheduleMetrics
from bayplan.runtimes.needs import sources_for
from bayplan.runtimes.scheduler.evicting import Evicting
from bayplan.runtimes.scheduler.hints import helped_by, refused_by
from bayplan.runtimes.scheduler.inbox import Inbox
from bayplan.runtimes.scheduler.judge import Judge, Judgement
from bayplan.runtimes.scheduler.placing import Placing
from bayplan.runtimes.scheduler.queue import Waiting
from bayplan.runtimes.scheduler.report import Reporter, Why
from bayplan.runtimes.workers import RequestOverrun, Workers
from bayplan.snapshot.cluster import Snapshot
from bayplan.state.live import LiveCluster
from bayplan.state.sources.book import Sources

log = logging.getLogger(__name__)

_STAND_BY_SECONDS = 0.1
# A judgement takes a millisecond or two; what is longer goes on beside everything else.
_PATIENCE_SECONDS = 0.005


class Loop:
    """Takes pods from the queue and finds them a node, while this server may."""

    def __init__(
        self,
        judges: Mapping[str, Judge],
        *,
        inbox: Inbox,
        live: LiveCluster,
        workers: Workers,
        sources: Sources,
        placing: Placing,
        evicting: Evicting,
        reporter: Reporter,
        metrics: ScheduleMetrics,
    ) -> None:
        """``judges`` by the name of the scheduler that pods ask for."""
        self._judges = judges
        self._inbox = inbox
        self._live = live
        self._workers = workers
        self._sources = sources
        self._placing = placing
        self._evicting = evicting
        self._reporter = reporter
        self._metrics = metrics
        self._stands_by: bool | None = None

    async def run(self) -> None:
        """Schedule until cancelled."""
        await self._live.view.listed()
        while True:
            if self._may_not():
                await asyncio.sleep(_STAND_BY_SECONDS)
                continue
            waiting = self._inbox.queue.take()
            if waiting is None:
                await self._news()
                continue
            try:
                await self._attempt(waiting)
            except Exception:
                # One pod must not be what stops all others.
                log.exception("pod %s: the attempt failed", waiting.pod.key, extra={"pod": waiting.pod.key})
                self._inbox.failed(waiting)
            # Whatever was awaited may have been there already: binds and watches must have their turn.
            await asyncio.sleep(0)

    async def last_word(self, pod: Pod, node: str, cluster: Snapshot) -> tuple[str, Mapping[str, str]]:
        """Whether a pod may still be on the node of a bind that was under way when we were not the one."""
        judge = self._judges.get(pod.scheduler_name)
        if judge is None:
            return "", EMPTY
        work: Callable[[Attempt], str] = partial(judge.fits, pod, node, cluster)
        return await self._workers.run(work), EMPTY

    def _may_not(self) -> bool:
        problem = self._live.why_not_bind() or self._live.view.problem()
        stands_by = bool(problem)
        if stands_by != self._stands_by:
            log.info("%s", f"standing by: {problem}" if problem else "scheduling")
            self._stands_by = stands_by
        return stands_by

    async def _news(self) -> None:
        """Wait for something to do, and no longer than until somebody's pause is over."""
        self._inbox.wake.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.005, self._inbox.queue.next_seconds())):
                await self._inbox.wake.wait()

    async def _attempt(self, waiting: Waiting) -> None:
        began = time.perf_counter()
        try:
            found = await self._judge(waiting.pod)
        except RequestOverrun as error:
            return self._failed(waiting, str(error), began)
        self._metrics.algorithm_duration.observe(time.perf_counter() - began)
        if waiting.pod.uid not in self._inbox.queue:
            return None
        if found.error:
            return self._failed(waiting, found.message or found.error, began)
        if found.node:
            return await self._placing.place(waiting, found.node, found.annotations, began=began)
        return self._refused(waiting, found, began)

    async def _judge(self, pod: Pod) -> Judgement:
        judge = self._judges[pod.scheduler_name]
        nominations = self._inbox.nominations
        kept = nominations.of(pod.uid)
        cluster = self._live.view.cache.snapshot().expecting(nominations.before(pod))
        readings = self._sources.current
        if self._sources.asked:
            wanted = sources_for(judge.policies, pod)
            readings = await self._sources.about(pod, list(cluster.nodes.names), wanted=wanted)
        cluster = cluster.with_readings(readings)

        def work(attempt: Attempt) -> Judgement:
            return judge.judge(pod, cluster, attempt, kept=kept)

        running: Awaitable[Judgement] = self._workers.run(
            work, optional=judge.shadows, patience_seconds=_PATIENCE_SECONDS
        )
        return await running

    def _failed(self, waiting: Waiting, message: str, began: float) -> None:
        log.warning("pod %s: %s", waiting.pod.key, message, extra={"pod": waiting.pod.key})
        self._inbox.failed(waiting)
        self._tell(waiting.pod, "SchedulerError", message, began, result="error")

    def _refused(self, waiting: Waiting, found: Judgement, began: float) -> None:
        pod = waiting.pod
        news, by = helped_by(found.choice), refused_by(found.choice)
        if found.refusal:
            # What a policy handed out to somebody else just now, it may have again at once.
            self._inbox.failed(waiting)
        elif found.eviction is not None:
            self._evicting.begin(waiting, found.eviction, helped_by=news, by=by)
        else:
            if not found.waits:
                self._inbox.nominations.drop(pod.uid)
            self._inbox.refused(waiting, helped_by=news, by=by)
        log.info("pod %s: %s", pod.key, found.message, extra={"pod": pod.key})
        self._tell(pod, "Unschedulable", found.message, began, result="unschedulable")

    def _tell(self, pod: Pod, why: Why, message: str, began: float, *, result: str) -> None:
        kept = self._inbox.nominations.of(pod.uid)
        self._reporter.unscheduled(pod, why, message, nominated_node=kept.node if kept else "")
        self._metrics.attempted(result, pod.scheduler_name, seconds=time.perf_counter() - began)
