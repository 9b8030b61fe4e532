"""The nudge writes an annotation on a waiting pod, so that kube-scheduler tries the pod again.

kube-scheduler tries a refused pod again at the next event of the cluster, or after five minutes. Some changes
are no events for it: a price that fell; a failed bind, which frees the place that the ledger kept; the end of
a time in which our view was outdated and we may have refused pods by it. An update of the pod is an event.
The nudge needs the right to patch pods, so it is off by default. It is slow on purpose, since each nudge
costs a scheduling attempt.
"""

import asyncio
import heapq
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass

from bayplan.client.errors import ApiError, ConnectError
from bayplan.client.limiter import Limiter
from bayplan.client.rest import ApiClient, pod_path
from bayplan.client.retry import may_pass
from bayplan.kube.pod import Pod
from bayplan.state.cache import Cache

log = logging.getLogger(__name__)

ANNOTATION = "bayplan.dev/nudged"
PODS = "pods"
"""The topic of what pods hold on nodes; see `Reason.helped_by`."""

_WAITING_LIMIT = 20_000
# A change reported this soon after a refusal may be what woke the pod: kube-scheduler's watch may be ahead of
# ours.
_LATE_SECONDS = 2.0
_TIMEOUT_SECONDS = 5.0
_LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class NudgeOptions:
    """How often pods may be nudged."""

    qps: float
    interval_seconds: float
    """The minimum time between two nudges of one pod."""


@dataclass
class _Waiting:
    """A pod that was refused on every node."""

    key: str
    uid: str
    topics: Collection[str]
    refused_at: float
    seen: bool
    """Whether our view has had the pod. If it never had, the pod is unknown, and not gone."""
    nudged_at: float = float("-inf")


class Nudge:
    """Remembers refused pods, and nudges each when something changes that may help it."""

    def __init__(
        self,
        client: ApiClient,
        cache: Cache,
        options: NudgeOptions,
        *,
        behind: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """``behind`` says whether the view may be outdated at this moment."""
        self.on_nudged: Callable[[], None] = lambda: None
        """Called after each nudge; the metrics count them."""
        self._client = client
        self._cache = cache
        self._interval_seconds = options.interval_seconds
        self._limiter = Limiter(per_second=options.qps, burst=1)
        self._clock = clock
        self._sleep = sleep
        self._waiting: dict[str, _Waiting] = {}
        # A heap of pods to be nudged, by the time of their last nudge.
        self._heap: list[tuple[float, int, _Waiting]] = []
        self._due: set[str] = set()
        self._numbers = itertools.count()
        self._wake = asyncio.Event()
        self._behind = behind
        # Pods that were refused while the view was behind, or could not be nudged.
        self._to_catch_up: dict[str, _Waiting] = {}
        self._any_to_catch_up = asyncio.Event()

    def refused(self, pod: Pod, topics: Collection[str]) -> None:
        """Remember a pod refused on every node; ``topics`` are changes that may help it, empty for any."""
        waiting = self._waiting.pop(pod.uid, None) or _Waiting(pod.key, pod.uid, topics, 0.0, seen=False)
        waiting.topics, waiting.refused_at = topics, self._clock()
        waiting.seen = waiting.seen or self._in_view(waiting) is not None
        # Put last: above the limit, the pod that was refused longest ago is dropped.
        self._waiting[pod.uid] = waiting
        if len(self._waiting) > _WAITING_LIMIT:
            first = next(iter(self._waiting))
            del self._waiting[first]
            self._to_catch_up.pop(first, None)
        if self._behind():
            self._to_catch_up[pod.uid] = waiting
            self._any_to_catch_up.set()

    def changed(self, topic: str) -> None:
        """Nudge the pods that wait for a topic, after a change that kube-scheduler does not see."""
        self._enqueue(w for w in self._waiting.values() if not w.topics or topic in w.topics)

    def news(self) -> None:
        """Nudge the pods that were refused just before the watch reported a change.

        kube-scheduler sees the change too, but may have called us before our own watch reported it.
        """
        since = self._clock() - _LATE_SECONDS
        late = []
        for waiting in reversed(self._waiting.values()):
            if waiting.refused_at < since:
                break
            # A pod refused again right after a nudge was judged with this change in view.
            if waiting.refused_at - waiting.nudged_at > _LATE_SECONDS:
                late.append(waiting)
        self._enqueue(late)

    def relisted(self) -> None:
        """Nudge every pod after pods were listed again: any may have been refused by a wrong view."""
        self._enqueue(self._waiting.values())

    async def run(self) -> None:
        """Nudge pods in turn, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._nudge_in_turn())
            group.create_task(self._nudge_when_caught_up())

    async def _nudge_when_caught_up(self) -> None:
        """Nudge the pods that were refused while the view was behind, once it has caught up.

        kube-scheduler may not have been behind: what we missed is then no event for it any more. A nudge that
        failed is made up for here too: the API server may have been away.
        """
        while True:
            await self._any_to_catch_up.wait()
            while self._behind():
                await self._sleep(_LOOK_SECONDS)
            self._any_to_catch_up.clear()
            self._enqueue(self._to_catch_up.values())
            self._to_catch_up.clear()

    async def _nudge_in_turn(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._heap:
                nudged_at, number, waiting = self._heap[0]
                if waiting.nudged_at != nudged_at:
                    # The pod was nudged since it was put here.
                    heapq.heapreplace(self._heap, (waiting.nudged_at, number, waiting))
                    continue
                if not self._still_waits(waiting):
                    self._take_first()
                    self._waiting.pop(waiting.uid, None)
                    # There may be thousands of such pods: let other tasks run in between.
                    await asyncio.sleep(0)
                    continue
                rest = nudged_at + self._interval_seconds - self._clock()
                if rest > 0:
                    await self._rest(rest)
                    continue
                self._take_first()
                await self._nudge(waiting)

    async def _rest(self, seconds: float) -> None:
        """Sleep until the next nudge is due, or a pod is enqueued."""
        resting = asyncio.ensure_future(self._sleep(seconds))
        waking = asyncio.ensure_future(self._wake.wait())
        await asyncio.wait((resting, waking), return_when=asyncio.FIRST_COMPLETED)
        for task in (resting, waking):
            task.cancel()
        self._wake.clear()

    def _enqueue(self, waiting: Iterable[_Waiting]) -> None:
        for each in waiting:
            if each.uid not in self._due:
                self._due.add(each.uid)
                heapq.heappush(self._heap, (each.nudged_at, next(self._numbers), each))
        if self._heap:
            self._wake.set()

    def _take_first(self) -> None:
        _, _, waiting = heapq.heappop(self._heap)
        self._due.discard(waiting.uid)

    def _still_waits(self, waiting: _Waiting) -> bool:
        """False once our view shows that the pod is gone or has a node; the API server knows the rest."""
        pod = self._in_view(waiting)
        if pod is None:
            return not waiting.seen
        waiting.seen = True
        return not pod.node_name

    def _in_view(self, waiting: _Waiting) -> Pod | None:
        pod = self._cache.pod(waiting.key)
        return pod if pod is not None and pod.uid == waiting.uid else None

    async def _nudge(self, waiting: _Waiting) -> None:
        await self._limiter.turn()
        if not self._still_waits(waiting):
            self._waiting.pop(waiting.uid, None)
            return
        waiting.nudged_at = self._clock()
        namespace, _, name = waiting.key.partition("/")
        # With the UID, the API server answers 409 if another pod has the name by now.
        note = {"metadata": {"uid": waiting.uid, "annotations": {ANNOTATION: f"{time.time():.3f}"}}}
        try:
            await self._client.patch(pod_path(namespace, name), note, timeout_seconds=_TIMEOUT_SECONDS)
        except (ApiError, ConnectError) as error:
            if isinstance(error, ApiError) and error.status in (404, 409):
                self._waiting.pop(waiting.uid, None)
                return
            log.warning("%s", error)
            if may_pass(error) and waiting.uid in self._waiting:
                # Tried again once the view is not behind: what changed will not change once more.
                self._to_catch_up[waiting.uid] = waiting
                self._any_to_catch_up.set()
        else:
            self.on_nudged()
