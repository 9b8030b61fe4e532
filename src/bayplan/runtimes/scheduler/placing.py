"""From a decision to a fact: a pod is assumed on its node at once, and the API server is asked meanwhile.

Many binds are under way at a time. One that is refused brings its pod back into the queue; one whose outcome
nobody knows is rolled forward by the ledger, and its pod comes back only when it is known not to be bound.

A pod whose claims waited for it is bound once they have their volumes, which may take minutes. It holds
nobody up meanwhile: only what is sent counts among the binds that are under way.
"""

import asyncio
import contextvars
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass

from bayplan.client.bind import BindRefused, BindUnknown
from bayplan.kube.pod import Pod
from bayplan.ops.schedule_metrics import ScheduleMetrics
from bayplan.runtimes.scheduler.inbox import Inbox
from bayplan.runtimes.scheduler.queue import Waiting
from bayplan.runtimes.scheduler.report import Reporter
from bayplan.runtimes.scheduler.volumes import Volumes
from bayplan.runtimes.scheduler.volumes_kept import Kept, VolumesRefused
from bayplan.state import news
from bayplan.state.live import LiveCluster

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Together:
    """One of several pods that are bound together."""

    waiting: Waiting
    pod: Pod
    kept: Kept | None
    node: str


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
        volumes: Volumes | None = None,
        on_bind: Callable[[Pod, str, str], object] = lambda *_: None,
        on_bound: Callable[[Pod, str], object] = lambda *_: None,
    ) -> None:
        """``on_bind`` is told of each bind with its node, and what was wrong with it.

        ``on_bound`` is told of each pod that has its node, as it is there. Without ``volumes`` nothing is
        done about claims that have none.
        """
        self._live = live
        self._inbox = inbox
        self._reporter = reporter
        self._metrics = metrics
        self._volumes = volumes
        self._on_bind = on_bind
        self._on_bound = on_bound
        self._slots = asyncio.Semaphore(at_once)
        self._tasks: set[asyncio.Task[None]] = set()
        # Each of several binds, which are among the tasks as well.
        self._groups: set[asyncio.Task[None]] = set()

    @property
    def count(self) -> int:
        """How many pods are on their way."""
        return len(self._tasks) - self.waiting_for_volumes

    @property
    def waiting_for_volumes(self) -> int:
        """How many pods have a node and are not sent there yet."""
        return self._volumes.wait.count if self._volumes is not None else 0

    async def place(
        self, waiting: Waiting, node: str, annotations: Mapping[str, str], *, began: float
    ) -> None:
        """Count the pod on the node from now on, and bind it as soon as there is a free hand."""
        ready = self._ready(waiting, node)
        if ready is None:
            self._inbox.failed(waiting)
            return
        pod, kept = ready
        self._assume(waiting, pod, node, annotations)
        self._inbox.told(news.PLACED)
        if kept is not None:
            self._begin(self._bind_with_volumes(waiting, pod, node, kept, began=began))
            return
        await self._slots.acquire()
        self._begin(self._bind(waiting, pod, node, began=began))

    def place_all(
        self,
        places: Sequence[tuple[Waiting, str, Mapping[str, str]]],
        *,
        title: str,
        began: float,
        timeout_seconds: float,
    ) -> bool:
        """Count all these pods on their nodes from now on, and bind them; or none, where one cannot be.

        None is bound before all have their volumes. Those that are not sent in time give their places back.
        ``title`` is what they are together.
        """
        together: list[_Together] = []
        for waiting, node, _ in places:
            ready = self._ready(waiting, node)
            if ready is None:
                for other in together:
                    self._give_back(other)
                return False
            together.append(_Together(waiting, *ready, node))
        for one, (waiting, node, annotations) in zip(together, places, strict=True):
            self._assume(waiting, one.pod, node, annotations)
        self._inbox.told(news.PLACED)
        group = asyncio.create_task(
            self._bind_together(together, title, began=began, timeout_seconds=timeout_seconds),
            # Several pods: none of what is traced for one of them is theirs.
            context=contextvars.Context(),
        )
        self._groups.add(group)
        group.add_done_callback(self._groups.discard)
        return True

    def _ready(self, waiting: Waiting, node: str) -> tuple[Pod, Kept | None] | None:
        """The pod as it is now, with what is kept for it; ``None`` where it cannot go there after all."""
        cache = self._live.view.cache
        pod = cache.pod(waiting.pod.key)
        if pod is None or pod.uid != waiting.pod.uid or pod.node_name or cache.node(node) is None:
            # The watch went on while the pod was judged: it, or the node, is not what it was.
            return None
        try:
            return pod, self._volumes.keep(pod, node) if self._volumes is not None else None
        except VolumesRefused as error:
            log.info("pod %s does not go to %s: %s", pod.key, node, error, extra={"pod": pod.key})
            return None

    def _assume(self, waiting: Waiting, pod: Pod, node: str, annotations: Mapping[str, str]) -> None:
        self._inbox.queue.placed(waiting)
        self._inbox.binding.add(pod.uid)
        self._inbox.nominations.drop(pod.uid)
        self._live.view.cache.assume(pod, node, annotations)

    def _give_back(self, one: "_Together") -> None:
        if one.kept is not None and self._volumes is not None:
            self._volumes.release(one.kept)

    async def _bind_together(
        self, together: list["_Together"], title: str, *, began: float, timeout_seconds: float
    ) -> None:
        unsent = list(together)
        sent: list[asyncio.Task[None]] = []
        problems: dict[str, str] = {}
        try:
            async with asyncio.timeout(timeout_seconds):
                problems = await self._volume_problems(together)
                while unsent and not problems:
                    await self._slots.acquire()
                    one = unsent.pop(0)
                    sent.append(self._begin(self._bind(one.waiting, one.pod, one.node, began=began)))
            name, problem = next(iter(problems.items()), ("", ""))
            why = f"{title}: member {name} is not bound: {problem}"
        except TimeoutError:
            why = f"{title}: not all members could be bound within {timeout_seconds:g} s"
        for one in unsent:
            self._give_back(one)
            self._live.ledger.give_up(one.pod)
        for one in unsent:
            self._ended(one.waiting, one.pod, one.node, problems.get(one.pod.name, why), began=began)
        await asyncio.gather(*sent)

    async def _volume_problems(self, together: list["_Together"]) -> dict[str, str]:
        """Why members do not get their volumes, by name; each waits for its own."""
        having = [(one.pod, one.kept) for one in together if one.kept is not None]
        found = await asyncio.gather(*(self._volume_problem(pod, kept) for pod, kept in having))
        return {pod.name: problem for (pod, _), problem in zip(having, found, strict=True) if problem}

    async def finish(self, *, timeout_seconds: float) -> None:
        """Wait for what is under way, and give up the rest: what was sent may land all the same."""
        tasks = self._tasks | self._groups
        if not tasks:
            return
        if self._volumes is not None:
            self._volumes.wait.stop()
        _, left = await asyncio.wait(tasks, timeout=timeout_seconds)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _begin(self, binding: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(binding)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _bind_with_volumes(
        self, waiting: Waiting, pod: Pod, node: str, kept: Kept, *, began: float
    ) -> None:
        problem = await self._volume_problem(pod, kept)
        if not problem:
            await self._slots.acquire()
            await self._bind(waiting, pod, node, began=began)
            return
        log.info(
            "pod %s is not bound to %s: %s", pod.key, node, problem, extra={"pod": pod.key, "node": node}
        )
        self._ended(waiting, pod, node, problem, began=began)

    async def _volume_problem(self, pod: Pod, kept: Kept) -> str:
        """Write down whose the volumes are, and wait for them; why the pod does not get them, if so."""
        assert self._volumes is not None, "they keep something"
        problem = ""
        try:
            async with self._slots:
                await self._volumes.write(kept)
            await self._volumes.wait.bound(kept)
        except VolumesRefused as error:
            problem = f'running PreBind plugin "VolumeBinding": binding volumes: {error}'
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            log.exception("binding the volumes of pod %s failed", pod.key, extra={"pod": pod.key})
        except asyncio.CancelledError:
            self._take_back(pod, kept)
            raise
        if problem:
            self._take_back(pod, kept)
        return problem

    def _take_back(self, pod: Pod, kept: Kept) -> None:
        assert self._volumes is not None, "they keep something"
        self._volumes.release(kept)
        self._live.ledger.give_up(pod)

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
        self._ended(waiting, pod, node, problem, began=began)

    def _ended(self, waiting: Waiting, pod: Pod, node: str, problem: str, *, began: float) -> None:
        """Tell what became of the pod, and bring it back where it has no node."""
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
        self._on_bound(now, node)
        about = {"pod": pod.key, "node": node}
        log.info("pod %s is bound to %s, attempt %d", pod.key, node, waiting.attempts, extra=about)
