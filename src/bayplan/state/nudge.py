"""The nudge: a pod that waits for something which kube-scheduler does not see is touched when it changes.

kube-scheduler tries a refused pod again on the next event of the cluster, else after five minutes. A price
that fell, a place that was kept for a bind which then failed: those are no events. Nor is it one that we see
the cluster again, and may have refused pods meanwhile by what was true once. Writing an annotation on the
waiting pod is one. It needs the right to patch pods, so it is off unless it is asked for; and it is slow on
purpose, since each touch costs a scheduling attempt.
"""

import asyncio
import heapq
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from urllib.parse import quote

from bayplan.client.errors import ApiError, ConnectError
from bayplan.client.limiter import Limiter
from bayplan.client.rest import ApiClient
from bayplan.kube.pod import Pod
from bayplan.state.cache import Cache

log = logging.getLogger(__name__)

ANNOTATION = "bayplan.dev/nudged"
PODS = "pods"
"""The topic of what pods hold on nodes; see `Reason.helped_by`."""

_WAITING_LIMIT = 20_000
# News this soon after a refusal may be what woke the pod: kube-scheduler can be ahead of our own watch.
_LATE_SECONDS = 2.0
_TIMEOUT_SECONDS = 5.0
_LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class NudgeOptions:
    """How often pods may be touched."""

    qps: float
    interval_seconds: float
    """How long one pod is left alone after a touch."""


@dataclass
class _Waiting:
    """A pod that was refused on every node."""

    key: str
    uid: str
    topics: Collection[str]
    refused_at: float
    nudged_at: float = float("-inf")


class Nudge:
    """Remembers who was refused, and touches them when what they wait for changes."""

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
        """``behind``: whether the view may not be what the cluster is, at this moment."""
        self.on_nudged: Callable[[], None] = lambda: None
        """Called after each touch, by whoever counts them."""
        self._client = client
        self._cache = cache
        self._interval_seconds = options.interval_seconds
        self._limiter = Limiter(per_second=options.qps, burst=1)
        self._clock = clock
        self._sleep = sleep
        self._waiting: dict[str, _Waiting] = {}
        # Those whose turn it is to be touched, by when they were touched last.
        self._line: list[tuple[float, int, _Waiting]] = []
        self._due: set[str] = set()
        self._numbers = itertools.count()
        self._wake = asyncio.Event()
        self._behind = behind
        # Those who were refused while we were behind.
        self._unsure: dict[str, _Waiting] = {}
        self._doubts = asyncio.Event()

    def refused(self, pod: Pod, topics: Collection[str]) -> None:
        """The pod was refused on every node; ``topics`` may change that, anything where there are none."""
        waiting = self._waiting.pop(pod.uid, None) or _Waiting(pod.key, pod.uid, topics, 0.0)
        waiting.topics, waiting.refused_at = topics, self._clock()
        # Put last: the first to be dropped is the one that was refused longest ago.
        self._waiting[pod.uid] = waiting
        if len(self._waiting) > _WAITING_LIMIT:
            first = next(iter(self._waiting))
            del self._waiting[first]
            self._unsure.pop(first, None)
        if self._behind():
            self._unsure[pod.uid] = waiting
            self._doubts.set()

    def changed(self, topic: str) -> None:
        """Something changed that kube-scheduler does not see."""
        self._touch(w for w in self._waiting.values() if not w.topics or topic in w.topics)

    def news(self) -> None:
        """The watch told of a change; kube-scheduler sees it too, but may have asked us before."""
        since = self._clock() - _LATE_SECONDS
        late = []
        for waiting in reversed(self._waiting.values()):
            if waiting.refused_at < since:
                break
            # Refused again right after a touch, it has seen what there was to see.
            if waiting.refused_at - waiting.nudged_at > _LATE_SECONDS:
                late.append(waiting)
        self._touch(late)

    async def run(self) -> None:
        """Touch those whose turn it is, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._touch_in_turn())
            group.create_task(self._when_caught_up())

    async def _when_caught_up(self) -> None:
        """kube-scheduler was not behind, perhaps: what we did not see then is no event for it any more."""
        while True:
            await self._doubts.wait()
            while self._behind():
                await self._sleep(_LOOK_SECONDS)
            self._doubts.clear()
            self._touch(self._unsure.values())
            self._unsure.clear()

    async def _touch_in_turn(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._line:
                nudged_at, number, waiting = self._line[0]
                if waiting.nudged_at != nudged_at:
                    # Touched since it was put here.
                    heapq.heapreplace(self._line, (waiting.nudged_at, number, waiting))
                    continue
                if not self._still_waits(waiting):
                    self._take_first()
                    self._waiting.pop(waiting.uid, None)
                    # There may be thousands of them, and others have something to do.
                    await asyncio.sleep(0)
                    continue
                rest = nudged_at + self._interval_seconds - self._clock()
                if rest > 0:
                    await self._rest(rest)
                    continue
                self._take_first()
                await self._nudge(waiting)

    async def _rest(self, seconds: float) -> None:
        """Until the next one is due, or another one is."""
        resting = asyncio.ensure_future(self._sleep(seconds))
        waking = asyncio.ensure_future(self._wake.wait())
        await asyncio.wait((resting, waking), return_when=asyncio.FIRST_COMPLETED)
        for task in (resting, waking):
            task.cancel()
        self._wake.clear()

    def _touch(self, waiting: Iterable[_Waiting]) -> None:
        for each in waiting:
            if each.uid not in self._due:
                self._due.add(each.uid)
                heapq.heappush(self._line, (each.nudged_at, next(self._numbers), each))
        if self._line:
            self._wake.set()

    def _take_first(self) -> None:
        _, _, waiting = heapq.heappop(self._line)
        self._due.discard(waiting.uid)

    def _still_waits(self, waiting: _Waiting) -> bool:
        pod = self._cache.pod(waiting.key)
        return pod is not None and pod.uid == waiting.uid and not pod.node_name

    async def _nudge(self, waiting: _Waiting) -> None:
        await self._limiter.turn()
        if not self._still_waits(waiting):
            self._waiting.pop(waiting.uid, None)
            return
        waiting.nudged_at = self._clock()
        namespace, _, name = waiting.key.partition("/")
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"
        # The UID makes it a conflict where another pod has the name by now.
        note = {"metadata": {"uid": waiting.uid, "annotations": {ANNOTATION: f"{time.time():.3f}"}}}
        try:
            await self._client.patch(path, note, timeout_seconds=_TIMEOUT_SECONDS)
        except ApiError as error:
            if error.status in (404, 409):
                self._waiting.pop(waiting.uid, None)
                return
            log.warning("%s", error)
        except ConnectError as error:
            log.warning("%s", error)
        else:
            self.on_nudged()
