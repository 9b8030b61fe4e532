"""Places pods: assumes a pod on its node at once, and binds it through the API server in the background.

Many binds are under way at a time. A refused bind brings its pod back into the queue. A bind with an unknown
outcome is rolled forward by the ledger, and its pod comes back only when it is known not to be bound.

A pod with claims in WaitForFirstConsumer mode is bound once they have volumes, which may take minutes. It
holds no slot meanwhile: only requests that are sent count as under way.
"""

import asyncio
import contextvars
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from bayplan.client.bind import BindRefused, BindUnknown
from bayplan.kube.pod import Pod
from bayplan.ops.schedule_metrics import ScheduleMetrics
from bayplan.runtimes.scheduler.hands import Hands
from bayplan.runtimes.scheduler.inbox import Inbox
from bayplan.runtimes.scheduler.outcome import Outcomes, Placement
from bayplan.runtimes.scheduler.queue import News, Waiting
from bayplan.runtimes.scheduler.report import Reporter
from bayplan.runtimes.scheduler.volumes import Volumes
from bayplan.runtimes.scheduler.volumes_kept import CLAIM, VOLUME, Kept, VolumesRefused
from bayplan.state import news
from bayplan.state.live import LiveCluster

log = logging.getLogger(__name__)

T = TypeVar("T")
_VOLUMES: News = frozenset({VOLUME, CLAIM})
# With a smaller share of free slots no pod is judged: by the time of its bind the decision could be outdated.
_FREE_SHARE = 0.25


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
        """``on_bind`` gets the pod, node and error of each bind; ``on_bound`` each bound pod and its node.

        Without ``volumes`` claims without a volume are ignored.
        """
        self._live = live
        self._inbox = inbox
        self._volumes = volumes
        self._outcomes = Outcomes(
            live.view.cache, inbox, reporter, metrics, on_bind=on_bind, on_bound=on_bound
        )
        self._slots = Hands(at_once)
        self._least = max(1, int(_FREE_SHARE * at_once))
        self._tasks: set[asyncio.Task[Any]] = set()
        # One task for each gang; the binds of its members are among `_tasks`.
        self._groups: set[asyncio.Task[None]] = set()

    @property
    def count(self) -> int:
        """How many binds are under way."""
        return len(self._tasks) - self.waiting_for_volumes

    @property
    def waiting_for_volumes(self) -> int:
        """How many pods have a node but wait for their volumes."""
        return self._volumes.wait.count if self._volumes is not None else 0

    @property
    def free(self) -> int:
        """How many binds can be sent at once."""
        return self._slots.free

    @property
    def has_room(self) -> bool:
        """Whether enough slots are free for a pod that is judged now to be bound at once."""
        return self._slots.free >= self._least

    async def room(self) -> None:
        """Wait until there is room."""
        while not self.has_room:
            await self._slots.freed()

    async def place(
        self, waiting: Waiting, node: str, annotations: Mapping[str, str], *, began: float
    ) -> None:
        """Assume the pod on the node now, and bind it as soon as a slot is free."""
        one = self._ready(waiting, node, began=began)
        if isinstance(one, str):
            self._outcomes.not_sent(waiting, node, one, began=began)
            return
        self._assume(one, annotations)
        self._inbox.told(news.PLACED)
        if one.kept is not None:
            self._begin(self._bind_with_volumes(one, one.kept))
            return
        await self._slots.acquire()
        self._begin(self._bind(one))

    def place_all(
        self,
        places: Sequence[tuple[Waiting, str, Mapping[str, str]]],
        *,
        title: str,
        began: float,
        timeout_seconds: float,
    ) -> bool:
        """Assume all these pods on their nodes and bind them, or none if one cannot be placed.

        No pod is bound before all have their volumes. Pods that are not sent in time give their places back.
        If one cannot be placed, all go back to the queue with a message. ``title`` names the gang.
        """
        together = self._all_ready(places, title=title, began=began)
        if not together:
            return False
        for one, (_, _, annotations) in zip(together, places, strict=True):
            self._assume(one, annotations)
        self._inbox.told(news.PLACED)
        group = asyncio.create_task(
            self._bind_together(together, title, timeout_seconds=timeout_seconds),
            # An empty context: the trace of one pod's attempt must not get the binds of several.
            context=contextvars.Context(),
        )
        self._groups.add(group)
        group.add_done_callback(self._groups.discard)
        return True

    def _all_ready(
        self, places: Sequence[tuple[Waiting, str, Mapping[str, str]]], *, title: str, began: float
    ) -> list[Placement]:
        """All placements, or none: then what was kept for the first ones is released."""
        found: list[Placement] = []
        problem = ""
        try:
            for waiting, node, _ in places:
                one = self._ready(waiting, node, began=began)
                if isinstance(one, str):
                    problem = one and f"{title}: member {waiting.pod.name} is not bound: {one}"
                    break
                found.append(one)
        finally:
            short = len(found) < len(places)
            if short:
                for placed in found:
                    self._give_back(placed)
                found.clear()
        if short:
            # An empty context: this must not go into the trace of one pod's attempt.
            outside = contextvars.Context()
            for waiting, node, _ in places:
                outside.run(self._outcomes.not_sent, waiting, node, problem, began=began)
        return found

    def _ready(self, waiting: Waiting, node: str, *, began: float) -> Placement | str:
        """The placement of the pod as it is now, with volumes kept for it; or why it cannot be placed.

        That is ``""`` for a pod that is gone, was replaced, or has a node: the watch has reported it.
        """
        cache = self._live.view.cache
        pod = cache.pod(waiting.pod.key)
        if pod is None or pod.uid != waiting.pod.uid or pod.node_name:
            return ""
        if cache.node(node) is None:
            # The node was deleted while the pod was judged.
            return f"node {node} is gone"
        try:
            kept = self._volumes.keep(pod, node) if self._volumes is not None else None
        except VolumesRefused as error:
            # A pod that was judged at the same time got the volume.
            return f'running Reserve plugin "VolumeBinding": {error}'
        return Placement(waiting, pod, node, kept, self._live.ledger.term, began)

    def _assume(self, one: Placement, annotations: Mapping[str, str]) -> None:
        self._inbox.queue.placed(one.waiting)
        self._inbox.binding.add(one.pod.uid)
        self._inbox.give_back(one.pod.uid, used=one.node)
        self._live.view.cache.assume(one.pod, one.node, annotations)

    def _give_back(self, one: Placement) -> None:
        if one.kept is not None and self._volumes is not None and self._volumes.release(one.kept):
            # The API server does not know of it, so no watch event will come.
            self._inbox.told(_VOLUMES)

    async def _bind_together(self, together: list[Placement], title: str, *, timeout_seconds: float) -> None:
        unsent = list(together)
        sent: list[asyncio.Task[None]] = []
        problems: dict[str, str] = {}
        try:
            async with asyncio.timeout(timeout_seconds):
                problems = await self._volume_problems(together) or self._lost(together)
                while unsent and not problems:
                    await self._slots.acquire()
                    sent.append(self._begin(self._bind(unsent.pop(0))))
            name, problem = next(iter(problems.items()), ("", ""))
            why = f"{title}: member {name} is not bound: {problem}"
        except TimeoutError:
            why = f"{title}: not all members could be bound within {timeout_seconds:g} s"
        except asyncio.CancelledError:
            self._take_back(unsent)
            raise
        self._take_back(unsent)
        for one in unsent:
            self._outcomes.ended(one, problems.get(one.pod.name, why))
        await asyncio.gather(*sent)

    async def _volume_problems(self, together: list[Placement]) -> dict[str, str]:
        """Why members do not get their volumes, by name; members wait concurrently."""
        having = [(one.pod, one.kept) for one in together if one.kept is not None]
        # As tasks in `_tasks`: `count` subtracts the pods that wait for volumes from those.
        waits = [self._begin(self._volume_problem(pod, kept)) for pod, kept in having]
        found = await asyncio.gather(*waits)
        return {pod.name: problem for (pod, _), problem in zip(having, found, strict=True) if problem}

    def _lost(self, together: list[Placement]) -> dict[str, str]:
        """Why members cannot be bound any more, by name: volumes take minutes, in which pods and nodes go."""
        cache = self._live.view.cache
        found: dict[str, str] = {}
        for one in together:
            pod = cache.pod(one.pod.key)
            if pod is None or pod.terminating or not cache.assumes(one.pod):
                found[one.pod.name] = "it does not wait for a node any more"
            elif cache.node(one.node) is None:
                found[one.pod.name] = f"node {one.node} is gone"
        return found

    async def finish(self, *, timeout_seconds: float) -> None:
        """Wait for binds under way, then cancel the rest; requests that were sent may still take effect."""
        tasks = self._tasks | self._groups
        if not tasks:
            return
        if self._volumes is not None:
            self._volumes.wait.stop()
        _, left = await asyncio.wait(tasks, timeout=timeout_seconds)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _begin(self, work: Coroutine[None, None, T]) -> "asyncio.Task[T]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _bind_with_volumes(self, one: Placement, kept: Kept) -> None:
        pod, node = one.pod, one.node
        try:
            problem = await self._volume_problem(pod, kept)
        except asyncio.CancelledError:
            self._take_back([one])
            raise
        if not problem:
            await self._slots.acquire()
            await self._bind(one)
            return
        self._take_back([one])
        log.info(
            "pod %s is not bound to %s: %s", pod.key, node, problem, extra={"pod": pod.key, "node": node}
        )
        self._outcomes.ended(one, problem)

    async def _volume_problem(self, pod: Pod, kept: Kept) -> str:
        """Bind the pod's claims to volumes, and wait for them; the problem, or ``""``."""
        assert self._volumes is not None, "volumes were kept for the pod"
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
        return problem

    def _take_back(self, unsent: Sequence[Placement]) -> None:
        """Free these places, all before any pod is woken, so that it finds all of them free."""
        for one in unsent:
            self._give_back(one)
            self._live.ledger.give_up(one.pod)

    async def _bind(self, one: Placement) -> None:
        pod, node = one.pod, one.node
        about = {"pod": pod.key, "node": node}
        problem = ""
        try:
            if self._live.view.cache.node(node) is None:
                # The node went while the pod waited for a slot; the API server would bind it all the same.
                self._live.ledger.give_up(pod)
                raise BindRefused(f"node {node} is gone")
            await self._live.ledger.bind_assumed(pod, node, term=one.term)
        except BindUnknown as error:
            problem = str(error)
            log.warning("%s", error, extra=about)
        except BindRefused as error:
            problem = str(error)
            log.info("pod %s was not bound to %s: %s", pod.key, node, error, extra=about)
        except Exception as error:
            # The ledger rolls the bind forward; whatever the error, the pod must not be forgotten.
            problem = f"{type(error).__name__}: {error}"
            log.exception("binding pod %s to %s failed", pod.key, node, extra=about)
        finally:
            self._slots.release()
        if problem:
            await self._live.ledger.settled(pod.uid)
        self._outcomes.ended(one, problem)
