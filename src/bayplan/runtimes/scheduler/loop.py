"""The scheduling loop: judges one pod after another, each on a cluster that contains the pods before it.

Only judging is sequential. Binds and evictions run beside the loop.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Mapping
from functools import partial
from itertools import takewhile

from bayplan.kube.pod import Pod
from bayplan.ops.schedule_metrics import ScheduleMetrics
from bayplan.runtimes.needs import newest, sources_for
from bayplan.runtimes.noted import Noted
from bayplan.runtimes.scheduler.evicting import Evicting
from bayplan.runtimes.scheduler.gangs import Gangs
from bayplan.runtimes.scheduler.generation import Generation
from bayplan.runtimes.scheduler.hints import helped_by, refused_by
from bayplan.runtimes.scheduler.inbox import Inbox
from bayplan.runtimes.scheduler.judge import Judgement, Placed
from bayplan.runtimes.scheduler.onlookers import Judged, Onlookers
from bayplan.runtimes.scheduler.placing import Placing
from bayplan.runtimes.scheduler.queue import Waiting
from bayplan.runtimes.scheduler.report import Reporter, Why
from bayplan.runtimes.workers import RequestOverrun, Workers
from bayplan.snapshot.cluster import Snapshot
from bayplan.state.live import LiveCluster

log = logging.getLogger(__name__)

_STAND_BY_SECONDS = 0.1
# How many pods are judged in one batch, and for how long at most, since a more important pod may come
# meanwhile. Each batch has costs of its own: a snapshot, a draft, and the way to a thread and back.
_FEW, _MANY, _SEVERAL_SECONDS = 4, 128, 0.03
# The event loop blocks for so long: two busy threads hand the interpreter to each other at every system call,
# and wait for it milliseconds each time.
_SEVERAL_PATIENCE_SECONDS = 0.05
# Pods that are judged before their backoff is over get a tenth of the time: after each second of judging
# them, so many seconds without.
_EARLY_REST_SHARE = 9.0
# Judging a pod takes a millisecond or two; the event loop goes on beside longer ones.
_PATIENCE_SECONDS = 0.005


class Loop:
    """Takes pods from the queue and finds nodes for them, while this server holds the Lease."""

    def __init__(
        self,
        generation: Generation,
        *,
        inbox: Inbox,
        live: LiveCluster,
        workers: Workers,
        onlookers: Onlookers,
        placing: Placing,
        evicting: Evicting,
        gangs: Gangs,
        reporter: Reporter,
        metrics: ScheduleMetrics,
    ) -> None:
        self.generation = generation
        """The policies in force; a reload replaces it."""
        self._onlookers = onlookers
        self._inbox = inbox
        self._live = live
        self._workers = workers
        self._placing = placing
        self._evicting = evicting
        self._gangs = gangs
        self._reporter = reporter
        self._metrics = metrics
        self._stands_by: bool | None = None
        self._at_once = _FEW
        self._early_at = 0.0

    async def run(self) -> None:
        """Schedule until cancelled."""
        await self._live.view.listed()
        while True:
            if self._may_not():
                await asyncio.sleep(_STAND_BY_SECONDS)
                continue
            if not self._placing.has_room:
                await self._placing.room()
                continue
            self._gangs.watch.flush()
            waiting = self._inbox.queue.take()
            early = waiting is None
            if waiting is None and (waiting := self._early()) is None:
                await self._news()
                continue
            began = time.perf_counter()
            try:
                if not await self._gangs.turn(waiting) and not await self._attempt_several(waiting):
                    await self._attempt(waiting)
            except Exception as error:
                self._surprised(waiting, error, began)
            if early:
                self._early_at = time.monotonic() + _EARLY_REST_SHARE * (time.perf_counter() - began)
            # The awaits above may not have yielded: let binds and watches run.
            await asyncio.sleep(0)

    def _early(self) -> Waiting | None:
        """A pod still in backoff, to judge while no other pod is ready."""
        return self._inbox.queue.take_early() if time.monotonic() >= self._early_at else None

    def _surprised(self, waiting: Waiting, error: Exception, began: float) -> None:
        """Put a pod back whose attempt raised: it must neither stop the loop nor be forgotten."""
        pod = waiting.pod
        log.exception("pod %s: the attempt failed", pod.key, extra={"pod": pod.key})
        if waiting.place != "taken" or pod.uid not in self._inbox.queue:
            # The pod is on its way to a node, which will report the outcome, or it is gone.
            return
        self._inbox.failed(waiting)
        self._metrics.attempted("error", pod.scheduler_name, seconds=time.perf_counter() - began)
        try:
            self._unscheduled(pod, "SchedulerError", f"{type(error).__name__}: {error}")
        except Exception:
            # Perhaps the report itself is what failed.
            log.exception("pod %s: it is not told of that", pod.key, extra={"pod": pod.key})

    async def last_word(self, pod: Pod, node: str, cluster: Snapshot) -> tuple[str, Mapping[str, str]]:
        """Recheck a pod on its node, whose bind was under way when this server got the Lease."""
        with self.generation.used() as generation:
            judge = generation.judges.get(pod.scheduler_name)
            if judge is None:
                return "", self._live.view.cache.assumed_annotations(pod)
            return await self._workers.run(partial(judge.last_word, pod, node, cluster))

    def _may_not(self) -> bool:
        problem = self._live.why_not_bind() or self._live.view.problem()
        stands_by = bool(problem)
        if stands_by != self._stands_by:
            log.info("%s", f"standing by: {problem}" if problem else "scheduling")
            self._stands_by = stands_by
        return stands_by

    async def _news(self) -> None:
        """Wait for an event, and no longer than until a pod's backoff is over."""
        self._inbox.wake.clear()
        with contextlib.suppress(TimeoutError):
            queue = self._inbox.queue
            early = max(queue.early_seconds(), self._early_at - time.monotonic())
            pause = min(queue.next_seconds(), self._gangs.watch.next_seconds(), early)
            async with asyncio.timeout(max(0.005, pause)):
                await self._inbox.wake.wait()

    async def _attempt_several(self, first: Waiting) -> bool:
        """Judge the pod in one batch with those behind it; False if it must be judged alone.

        The batch stops at the first pod that finds no node, which is then judged alone in its turn. The next
        batch starts small again.
        """
        began = time.perf_counter()
        generation = self.generation
        together = self._together(first, generation)
        if len(together) < 2:
            self._at_once = _FEW
            return False
        pods = [waiting.pod for waiting in together]
        judge, readings = generation.judges[first.pod.scheduler_name], generation.sources.current
        cluster = self._live.view.cache.snapshot().with_readings(readings)
        noted = Noted[list[Placed]](
            lambda attempt: judge.place_some(pods, cluster, attempt, seconds=_SEVERAL_SECONDS)
        )
        placed: list[Placed] = []
        with generation.used(), contextlib.suppress(RequestOverrun):
            placed = await self._workers.run(
                noted, optional=judge.shadows, patience_seconds=_SEVERAL_PATIENCE_SECONDS
            )
        whole = len(placed) == len(pods)
        self._at_once = min(_MANY, 2 * self._at_once) if whole else max(_FEW, len(placed))
        each_seconds = (time.perf_counter() - began) / max(1, len(placed))
        for waiting, pod, one in zip(together, pods, placed, strict=False):
            if waiting is not first and not self._claimed(waiting, pod):
                continue
            self._metrics.algorithm_duration.observe(each_seconds)
            try:
                self._onlookers.judged(
                    Judged(pod, one.found, generation, one.cluster, readings, noted.attempt), began=began
                )
                if pod.uid in self._inbox.queue:
                    await self._placing.place(waiting, one.found.node, one.found.annotations, began=began)
            except Exception as error:
                self._surprised(waiting, error, began)
            began += each_seconds
        return bool(placed)

    def _together(self, first: Waiting, generation: Generation) -> list[Waiting]:
        """The pod, and those behind it that can be judged in one batch with it."""
        if generation.sources.asked or self._onlookers.closely or not self._simple(first, first):
            return [first]
        # No more than can be bound at once, so that the decisions are still true then.
        others = self._inbox.queue.ahead(min(self._at_once, self._placing.free) - 1)
        return [first, *takewhile(lambda other: self._simple(other, first), others)]

    def _simple(self, waiting: Waiting, first: Waiting) -> bool:
        """Whether the pod's node depends on nodes and placed pods only: no volumes, nominations or gangs."""
        pod, nominations = waiting.pod, self._inbox.nominations
        return (
            pod.scheduler_name == first.pod.scheduler_name
            and pod.scheduler_name in self.generation.judges
            and not pod.volumes
            and nominations.of(pod.uid) is None
            and not nominations.before(pod)
            and (waiting is first or not self._gangs.concerns(pod))
        )

    def _claimed(self, waiting: Waiting, pod: Pod) -> bool:
        """Take a pod that was judged before its turn, if it is still ready and unchanged."""
        if waiting.place != "active" or waiting.pod is not pod:
            return False
        self._inbox.queue.take_too(waiting)
        return True

    async def _attempt(self, waiting: Waiting) -> None:
        began = time.perf_counter()
        # A reload during this attempt must not change its policies.
        generation = self.generation
        if waiting.pod.scheduler_name not in generation.judges:
            return None
        self._onlookers.begin(waiting, generation)
        try:
            with generation.used():
                found = await self._judge(waiting.pod, generation, began=began)
        except RequestOverrun as error:
            return self._failed(waiting, str(error), began)
        except Exception as error:
            self._onlookers.ended("error", f"{type(error).__name__}: {error}")
            raise
        self._metrics.algorithm_duration.observe(time.perf_counter() - began)
        if waiting.pod.uid not in self._inbox.queue:
            return None
        if found.error:
            return self._failed(waiting, found.message or found.error, began)
        if found.node:
            return await self._placing.place(waiting, found.node, found.annotations, began=began)
        return self._refused(waiting, found, began)

    async def _judge(self, pod: Pod, generation: Generation, *, began: float) -> Judgement:
        judge, sources = generation.judges[pod.scheduler_name], generation.sources
        plain = self._live.view.cache.snapshot()
        readings = sources.current
        if sources.asked:
            wanted = sources_for(judge.policies, pod)
            readings = await sources.about(pod, list(plain.nodes.names), wanted=wanted)
            plain = newest(plain, self._live.view.cache.snapshot())
        nominations = self._inbox.nominations
        kept, expecting = nominations.of(pod.uid), nominations.before(pod)
        cluster = plain.keeping(expecting).with_readings(readings)
        noted = Noted[Judgement](lambda attempt: judge.judge(pod, cluster, attempt, kept=kept))
        running: Awaitable[Judgement] = self._workers.run(
            noted, optional=judge.shadows, patience_seconds=_PATIENCE_SECONDS
        )
        found = await running
        seen = Judged(pod, found, generation, plain, readings, noted.attempt, expecting)
        self._onlookers.judged(seen, began=began)
        return found

    def _failed(self, waiting: Waiting, message: str, began: float) -> None:
        log.warning("pod %s: %s", waiting.pod.key, message, extra={"pod": waiting.pod.key})
        self._inbox.failed(waiting)
        self._tell(waiting.pod, "SchedulerError", message, began, result="error")

    def _refused(self, waiting: Waiting, found: Judgement, began: float) -> None:
        pod = waiting.pod
        news, by = helped_by(found.choice), refused_by(found.choice)
        if found.refusal:
            # A policy refused to allocate; that may change at any moment, so no event is waited for.
            self._inbox.failed(waiting)
        elif found.eviction is not None:
            self._evicting.begin(waiting, found.eviction, helped_by=news, by=by)
        else:
            if not found.waits:
                self._inbox.give_back(pod.uid)
            self._inbox.refused(waiting, helped_by=news, by=by)
        log.info("pod %s: %s", pod.key, found.message, extra={"pod": pod.key})
        self._tell(pod, "Unschedulable", found.message, began, result="unschedulable")

    def _tell(self, pod: Pod, why: Why, message: str, began: float, *, result: str) -> None:
        self._unscheduled(pod, why, message)
        self._metrics.attempted(result, pod.scheduler_name, seconds=time.perf_counter() - began)
        self._onlookers.ended(result, message if result == "error" else "")

    def _unscheduled(self, pod: Pod, why: Why, message: str) -> None:
        kept = self._inbox.nominations.of(pod.uid)
        self._reporter.unscheduled(pod, why, message, nominated_node=kept.node if kept else "")
