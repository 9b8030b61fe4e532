"""Pods that wait for a node: who is next, who pauses a moment, who waits for something to happen.

A pod that was refused waits for news that may help it, and after each attempt for a pause that doubles: so a
pod that fits nowhere does not take everybody's time. News that comes while a pod is being judged is not lost:
it is looked at when the pod comes back.
"""

import heapq
import itertools
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from bayplan.kube.pod import Pod

Place = Literal["active", "backoff", "unschedulable", "gated", "taken", "placed"]
News = frozenset[str]
"""What happened: ``pods`` (gone or smaller), ``placed`` (one came to a node), ``nodes``, a kind, a source."""

ANYTHING: News = frozenset({"*"})
"""A refusal that does not say what could help: everything may."""

_FIRST_SECONDS, _LONGEST_SECONDS = 1.0, 10.0
_FLUSH_SECONDS = 300.0


def by_priority(pod: Pod) -> Any:
    """The higher priority first, as in kube-scheduler; among equals the one that waits longer."""
    return -pod.priority


@dataclass
class Waiting:
    """A pod in the queue, and what became of its attempts."""

    pod: Pod
    since: float
    """When it was first seen."""
    place: Place = "active"
    attempts: int = 0
    helped_by: News = ANYTHING
    """What could change the last refusal."""
    refused_by: frozenset[str] = frozenset()
    """The policies that refused it at last."""
    tried_at: float = 0.0
    ticket: int = field(default=0, compare=False)
    """Of its present place: whatever stands in a heap with another number is old."""
    seen: int = field(default=0, compare=False)
    """How much news there had been when it was taken."""


class PodQueue:
    """The pods that wait. One task owns it; nothing here waits or asks anybody."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        order: Callable[[Pod], Any] = by_priority,
        first_seconds: float = _FIRST_SECONDS,
        longest_seconds: float = _LONGEST_SECONDS,
        flush_seconds: float = _FLUSH_SECONDS,
    ) -> None:
        self._clock = clock
        self._order = order
        self._pauses = (first_seconds, longest_seconds)
        self._flush_seconds = flush_seconds
        self._waiting: dict[str, Waiting] = {}
        # By place as well: there may be ten thousand pods, and news with each one that gets its node.
        self._at: dict[Place, dict[str, Waiting]] = {place: {} for place in get_args(Place)}
        # Of those that wait for news, by what helps them: few kinds, however many pods.
        self._helped: dict[News, dict[str, Waiting]] = {}
        self._active: list[tuple[Any, int, Waiting]] = []
        self._backoff: list[tuple[float, int, Waiting]] = []
        self._tickets = itertools.count(1)
        self._news: deque[tuple[int, News]] = deque()
        self._told = 0
        self._flush_at = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, uid: str) -> bool:
        return uid in self._waiting

    def count(self, place: Place) -> int:
        """How many pods are in one place."""
        return len(self._at[place])

    def seconds_since(self, waiting: Waiting) -> float:
        """How long ago the pod was first seen, or its gates went."""
        return self._clock() - waiting.since

    def put(self, pod: Pod) -> None:
        """A pod wants a node, or is another one than it was; what was changed may help it."""
        known = self._waiting.get(pod.uid)
        if known is None:
            known = self._waiting[pod.uid] = Waiting(pod, self._clock())
            self._move(known, "gated" if pod.gated else "active")
            return
        changed = known.pod.spec != pod.spec or known.pod.labels != pod.labels
        known.pod = pod
        if known.place == "gated":
            if not pod.gated:
                known.since = self._clock()
                self._move(known, "active")
        elif changed and known.place == "unschedulable":
            self._wake(known)

    def drop(self, uid: str) -> None:
        """The pod is gone, or has a node."""
        gone = self._waiting.pop(uid, None)
        if gone is not None:
            self._leave(gone)
            gone.ticket = 0

    def take(self) -> Waiting | None:
        """The next pod to be judged; ``None`` where none is ready."""
        self.flush()
        while self._active:
            _, ticket, waiting = heapq.heappop(self._active)
            if ticket == waiting.ticket:
                self._move(waiting, "taken")
                waiting.attempts += 1
                waiting.seen = self._told
                return waiting
        return None

    def refused(self, waiting: Waiting, *, helped_by: News, by: Collection[str] = ()) -> None:
        """No node was found: the pod waits for news that may help, or pauses where there was some by now."""
        if self._lost(waiting):
            return
        waiting.helped_by = helped_by or ANYTHING
        waiting.refused_by = frozenset(by)
        waiting.tried_at = self._clock()
        since = [news for number, news in self._news if number > waiting.seen]
        if any(_helps(news, waiting.helped_by) for news in since):
            self._move(waiting, "backoff")
        else:
            self._move(waiting, "unschedulable")
        self._forget_news()

    def placed(self, waiting: Waiting) -> None:
        """A node was found, and the API server is asked: no news matters until that is settled."""
        if not self._lost(waiting):
            self._move(waiting, "placed")
            self._forget_news()

    def failed(self, waiting: Waiting) -> None:
        """Something went wrong that is not the pod's fault: it comes again after its pause."""
        if self._lost(waiting):
            return
        waiting.tried_at = self._clock()
        self._move(waiting, "backoff")
        self._forget_news()

    def tell(self, news: News) -> int:
        """Something happened; how many pods it may help."""
        self._told += 1
        if self._at["taken"]:
            self._news.append((self._told, news))
        helped = [
            waiting
            for helped_by, pods in self._helped.items()
            if _helps(news, helped_by)
            for waiting in pods.values()
        ]
        for waiting in helped:
            self._wake(waiting)
        return len(helped)

    def flush(self) -> None:
        """Whoever has paused long enough is ready; so is whoever has waited far too long, as a safety net."""
        now = self._clock()
        while self._backoff and self._backoff[0][0] <= now:
            _, ticket, waiting = heapq.heappop(self._backoff)
            if ticket == waiting.ticket:
                self._move(waiting, "active")
        if now >= self._flush_at:
            self._flush_at = now + self._flush_seconds / 10
            for waiting in list(self._at["unschedulable"].values()):
                if now - waiting.tried_at >= self._flush_seconds:
                    self._move(waiting, "active")

    def next_seconds(self) -> float:
        """How long nothing will be ready without news; 0 where something is."""
        if self._at["active"]:
            return 0.0
        pauses = [at - self._clock() for at, ticket, waiting in self._backoff[:1] if ticket == waiting.ticket]
        return max(0.0, min([self._flush_seconds / 10, *pauses]))

    def _wake(self, waiting: Waiting) -> None:
        self._move(waiting, "backoff" if self._until(waiting) > self._clock() else "active")

    def _until(self, waiting: Waiting) -> float:
        first, longest = self._pauses
        return waiting.tried_at + min(longest, first * 2.0 ** (max(1, waiting.attempts) - 1))

    def _move(self, waiting: Waiting, place: Place) -> None:
        self._leave(waiting)
        self._at[place][waiting.pod.uid] = waiting
        if place == "unschedulable":
            self._helped.setdefault(waiting.helped_by, {})[waiting.pod.uid] = waiting
        waiting.place = place
        waiting.ticket = next(self._tickets)
        if place == "active":
            heapq.heappush(self._active, (self._order(waiting.pod), waiting.ticket, waiting))
        elif place == "backoff":
            heapq.heappush(self._backoff, (self._until(waiting), waiting.ticket, waiting))

    def _leave(self, waiting: Waiting) -> None:
        uid = waiting.pod.uid
        self._at[waiting.place].pop(uid, None)
        if waiting.place == "unschedulable":
            alike = self._helped[waiting.helped_by]
            del alike[uid]
            if not alike:
                del self._helped[waiting.helped_by]

    def _lost(self, waiting: Waiting) -> bool:
        """Whether the pod has left the queue while it was being judged."""
        return self._waiting.get(waiting.pod.uid) is not waiting

    def _forget_news(self) -> None:
        seen = [waiting.seen for waiting in self._at["taken"].values()]
        while self._news and (not seen or self._news[0][0] <= min(seen)):
            self._news.popleft()


def _helps(news: News, helped_by: News) -> bool:
    return ANYTHING in (helped_by, news) or not news.isdisjoint(helped_by)
