"""From a decision to a fact: a pod is assumed on its node at once, and the API server is asked meanwhile.

Many binds are under way at a time. One that is refused brings its pod back into the queue; one whose outcome
nobody knows is rolled forward by the ledger, and its pod comes back only when it is known not to be bound.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping

from bayplan.client.bind import BindRefused, BindUnknown
from bayplan.kube.pod import Pod
from bayplan.ops.schedule_metrics import ScheduleMetrics
from bayplan.runtimes.scheduler.inbox import Inbox
from bayplan.runtimes.scheduler.queue import Waiting
from bayplan.runtimes.scheduler.report import Reporter
from bayplan.state import news
from bayplan.state.live import LiveCluster

log = logging.getLogger(__name__)


class Placing:
    """The binds that are under way."""

    def __init__(
        self,
        live: LiveCluster,
        inbox: Inbox,
        reporter: Reporter,
        metrics: ScheduleMetrics,
        *,
        at_once: int,
        on_bind: Callable[[Pod, str, str], object] = lambda *_: None,
    ) -> None:
        """``on_bind`` is told of each bind with its node, and what was wrong with it."""
        self._live = live
        self._inbox = inbox
        self._reporter = reporter
        self._metrics = metrics
        self._on_bind = on_bind
        self._slots = asyncio.Semaphore(at_once)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def count(self) -> int:
        """How many pods are on their way."""
        return len(self._tasks)

    async def place(
        self, waiting: Waiting, node: str, annotations: Mapping[str, str], *, began: float
    ) -> None:
        """Count the pod on the node from now on, and bind it as soon as there is a free hand."""
        cache = self._live.view.cache
        pod = cache.pod(waiting.pod.key)
        if pod is None or pod.uid != waiting.pod.uid or pod.node_name or cache.node(node) is None:
            # The watch went on while the pod was judged: it, or the node, is not what it was.
            self._inbox.failed(waiting)
            return
        self._inbox.queue.placed(waiting)
        self._inbox.binding.add(pod.uid)
        self._inbox.nominations.drop(pod.uid)
        cache.assume(pod, node, annotations)
        self._inbox.told(news.PLACED)
        await self._slots.acquire()
        task = asyncio.create_task(self._bind(waiting, pod, node, began=began))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self, *, timeout_seconds: float) -> None:
        """Wait for what is under way, and give up the rest: what was sent may land all the same."""
        if not self._tasks:
            return
        _, left = await asyncio.wait(self._tasks, timeout=timeout_seconds)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _bind(self, waiting: Waiting, pod: Pod, node: str, *, began: float) -> None:
        about = {"pod": pod.key, "node": node}
        problem = ""
        try:
            await self._live.ledger.bind_assumed(pod, node)
        except BindUnknown as error:
            problem = str(error)
            log.warning("%s", error, extra=about)
        except BindRefused as error:
            problem = str(error)
            log.info("pod %s was not bound to %s: %s", pod.key, node, error, extra=about)
        except Exception as error:
            # The ledger rolls it forward; whatever it was, the pod must not be forgotten.
            problem = f"{type(error).__name__}: {error}"
            log.exception("binding pod %s to %s failed", pod.key, node, extra=about)
        finally:
            self._slots.release()
        if problem:
            await self._live.ledger.settled(pod.uid)
        self._inbox.binding.discard(pod.uid)
        self._on_bind(pod, node, problem)
        seconds = time.perf_counter() - began
        now = self._live.view.cache.pod(pod.key)
        if now is not None and now.uid == pod.uid and not now.node_name:
            self._metrics.attempted("error", pod.scheduler_name, seconds=seconds)
            self._inbox.pod_is(now)
            self._inbox.failed(waiting)
            self._inbox.told(news.PODS)
            self._reporter.unscheduled(now, "SchedulerError", problem)
            return
        self._inbox.queue.drop(pod.uid)
        if now is None or now.uid != pod.uid or now.node_name != node:
            # Gone, or somebody else was faster: the watch has told, or will.
            return
        self._metrics.attempted("scheduled", pod.scheduler_name, seconds=seconds)
        self._metrics.bound(attempts=waiting.attempts, seconds=self._inbox.queue.seconds_since(waiting))
        self._reporter.scheduled(pod, node)
        log.info("pod %s is bound to %s, attempt %d", pod.key, node, waiting.attempts, extra=about)
