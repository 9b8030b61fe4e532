"""The scheduling queue: pods that are ready, in backoff, or waiting for an event that may help them.

As in kube-scheduler, a refused pod waits for an event (*news*) that may help it, and after each attempt for a
backoff that doubles, so that a pod that fits nowhere does not take all the time. An event that comes while a
pod is being judged is not lost: it is considered when the pod comes back. Pods that ``gate`` or ``order``
hooks apply to wait in the lobby until the hooks have run.
"""

import itertools
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any, get_args

from bayplan.authoring.order_key import priority_key
from bayplan.kube.pod import Pod
from bayplan.runtimes.scheduler.by_news import ByNews, Happened
from bayplan.runtimes.scheduler.line import Line
from bayplan.runtimes.scheduler.lobby import Lobby
from bayplan.runtimes.scheduler.pauses import Pauses
from bayplan.runtimes.scheduler.waiting import ANYTHING, News, Place, Waiting

__all__ = ["ANYTHING", "News", "Place", "PodQueue", "Waiting"]

_FIRST_SECONDS, _LONGEST_SECONDS = 1.0, 10.0
_FLUSH_SECONDS = 300.0


class PodQueue:
    """The pods without a node. Owned by one task; nothing here blocks or calls hooks."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        order: Callable[[Pod], Any] = priority_key,
        asks: Callable[[Pod], bool] = lambda _: False,
        first_seconds: float = _FIRST_SECONDS,
        longest_seconds: float = _LONGEST_SECONDS,
        flush_seconds: float = _FLUSH_SECONDS,
    ) -> None:
        """``asks``: whether a ``gate`` or ``order`` hook applies to a pod."""
        self._clock = clock
        self._asks = asks
        self.on_ask: Callable[[], object] = lambda: None
        """Called when there may be a pod in the lobby to run hooks for."""
        self._flush_seconds = flush_seconds
        self._waiting: dict[str, Waiting] = {}
        # Also by place: there may be ten thousand pods, and an event with each one that is placed.
        self._at: dict[Place, dict[str, Waiting]] = {place: {} for place in get_args(Place)}
        self._helped = ByNews()
        self.lobby = Lobby()
        self._line = Line(order)
        self._pauses = Pauses(first_seconds=first_seconds, longest_seconds=longest_seconds)
        self._tickets = itertools.count(1)
        self._happened = Happened()
        self._flush_at = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, uid: str) -> bool:
        return uid in self._waiting

    def count(self, place: Place) -> int:
        """How many pods are in one place."""
        return len(self._at[place])

    def counts(self) -> dict[str, int]:
        """How many pods wait, by the names of kube-scheduler's queues."""
        at = {place: len(pods) for place, pods in self._at.items()}
        return {
            "active": at["active"] + at["asking"],
            "backoff": at["backoff"],
            "unschedulable": at["unschedulable"],
            "gated": at["gated"] + at["held"],
            "gang": at["gang"],
        }

    def seconds_since(self, waiting: Waiting) -> float:
        """How long ago the pod was first seen, lost its scheduling gates, or was let in."""
        return self._clock() - waiting.since

    def put(self, pod: Pod) -> None:
        """Add a pod, or update it; a change may make it schedulable."""
        known = self._waiting.get(pod.uid)
        if known is None:
            known = self._waiting[pod.uid] = Waiting(pod, self._clock())
            if pod.gated:
                self._move(known, "gated")
            else:
                self._enter(known)
            return
        changed = _differs(known.pod, pod)
        known.pod = pod
        if known.place == "gated":
            if not pod.gated:
                known.since = self._clock()
                self._enter(known)
        elif changed and known.place == "taken":
            known.changed = True
        elif changed and known.place == "unschedulable":
            self._wake(known)
        elif changed and known.place == "gang":
            self._enter(known)
        elif changed and known.place in ("held", "asking"):
            # Also if its hooks run now: their result is about the old version of the pod.
            self._move(known, "asking")

    def drop(self, uid: str) -> None:
        """Remove a pod that was deleted or has a node."""
        gone = self._waiting.pop(uid, None)
        if gone is not None:
            self._leave(gone)
            gone.ticket = 0

    def take(self) -> Waiting | None:
        """Take the next pod to judge; ``None`` if none is ready."""
        self.flush()
        waiting = self._line.take()
        if waiting is not None:
            self._take(waiting)
        return waiting

    def take_early(self) -> Waiting | None:
        """Take a pod out of backoff early, for when no other pod is ready.

        Never before the length of a first backoff. A pod whose attempt raised an error stays to the end.
        """
        waiting = self._pauses.early(self._clock())
        if waiting is None:
            return None
        self._enter(waiting)
        return self.take()

    def early_seconds(self) -> float:
        """How long until `take_early` may have a pod."""
        return max(0.0, self._pauses.early_at() - self._clock())

    def ahead(self, count: int) -> list[Waiting]:
        """The next ``count`` pods in order, without taking them."""
        return self._line.ahead(count)

    def pods(self) -> list[Pod]:
        """Every pod, in any place."""
        return [waiting.pod for waiting in self._waiting.values()]

    def find(self, uid: str) -> Waiting | None:
        """The pod of that UID, in any place."""
        return self._waiting.get(uid)

    def take_too(self, waiting: Waiting) -> None:
        """Take this pod, to judge it together with another; does nothing if it has left the queue."""
        if not self._lost(waiting):
            self._take(waiting)

    def ask_first(self, others: Iterable[Waiting]) -> bool:
        """Send refused pods among these back to their hooks first; whether there were any."""
        refused = [one for one in others if one.place in ("backoff", "unschedulable") and self._asks(one.pod)]
        for one in refused:
            self._move(one, "asking")
        return bool(refused)

    def park(self, waiting: Waiting) -> None:
        """Let the pod wait for its gang, whatever the events; that does not count as an attempt."""
        if not self._lost(waiting):
            waiting.attempts -= waiting.place == "taken"
            waiting.tried_at = self._clock()
            self._move(waiting, "gang")

    def wake(self, uid: str) -> None:
        """Retry a pod that waits for events, after its backoff, since something changed for it alone."""
        known = self._waiting.get(uid)
        if known is not None and known.place == "unschedulable":
            self._wake(known)

    def unpark(self, waiting: Waiting) -> None:
        """The pod need not wait for its gang any more."""
        if waiting.place == "gang":
            self._enter(waiting)

    def refused(self, waiting: Waiting, *, helped_by: News, by: Collection[str] = ()) -> None:
        """No node was found: wait for an event that may help, or back off if one came meanwhile."""
        if self._lost(waiting):
            return
        waiting.helped_by = helped_by or ANYTHING
        waiting.refused_by = frozenset(by)
        waiting.erred = False
        waiting.tried_at = self._clock()
        again = waiting.changed or self._happened.since(waiting.seen, waiting.helped_by)
        self._move(waiting, "backoff" if again else "unschedulable")

    def placed(self, waiting: Waiting) -> None:
        """A node was found and the bind is under way: events do not matter until it is settled."""
        if not self._lost(waiting):
            self._move(waiting, "placed")

    def failed(self, waiting: Waiting) -> None:
        """The attempt failed for no fault of the pod: retry after its backoff."""
        if self._lost(waiting):
            return
        waiting.erred, waiting.tried_at = True, self._clock()
        self._move(waiting, "backoff")

    def to_ask(self, limit: int, *, again: bool = True) -> list[tuple[int, Waiting]]:
        """Pods whose hooks should run now, each with its ticket for `let_in` or `keep_out`.

        With ``again`` also pods that are kept out and whose turn it is in a round.
        """
        found = self.lobby.next(limit, again=again)
        for waiting in found:
            self._move(waiting, "asking", new=False)
            waiting.seen = self._happened.count
        return [(waiting.ticket, waiting) for waiting in found]

    def ask_later(self, waiting: Waiting, ticket: int) -> None:
        """The pod's hooks were not run, for lack of time."""
        if waiting.ticket != ticket:
            return
        if waiting.kept_out:
            self._move(waiting, "held")
            self.lobby.back(waiting)
        else:
            self._move(waiting, "asking")

    def let_in(self, waiting: Waiting, ticket: int, *, key: Any = None) -> bool:
        """No gate keeps the pod out; False if the ticket is out of date."""
        if waiting.ticket != ticket:
            return False
        if waiting.kept_out and not waiting.attempts:
            waiting.since = self._clock()
        waiting.key, waiting.kept_out = key, ""
        self._move(waiting, "active")
        return True

    def keep_out(self, waiting: Waiting, ticket: int, *, why: str, helped_by: News) -> bool:
        """A gate keeps the pod out until an event may help; False if the ticket is out of date."""
        if waiting.ticket != ticket:
            return False
        waiting.helped_by, waiting.kept_out = helped_by, why
        waiting.tried_at = self._clock()
        self._move(waiting, "held")
        return True

    def tell(self, news: News) -> int:
        """Announce an event; returns how many pods of the queue it may help."""
        self._happened.add(news)
        helped = [waiting for kind in self._helped.kinds(news) for waiting in self._helped.of(kind)]
        for waiting in helped:
            self._wake(waiting)
        if self.lobby.tell(news):
            self.on_ask()
        return len(helped)

    def flush(self) -> None:
        """Make pods ready whose backoff is over, and, as a safety net, pods that waited far too long."""
        now = self._clock()
        for waiting in self._pauses.over(now):
            self._enter(waiting)
        if now >= self._flush_at:
            self._flush_at = now + self._flush_seconds / 10
            for waiting in [*self._at["unschedulable"].values(), *self._at["gang"].values()]:
                if now - waiting.tried_at >= self._flush_seconds:
                    self._enter(waiting)
            for waiting in list(self._at["held"].values()):
                if now - waiting.tried_at >= self._flush_seconds:
                    self._move(waiting, "asking")

    def next_seconds(self) -> float:
        """How long until a pod may be ready without an event; 0 if one is."""
        if self._at["active"]:
            return 0.0
        return max(0.0, min(self._flush_seconds / 10, self._pauses.next_at() - self._clock()))

    def _wake(self, waiting: Waiting) -> None:
        if self._pauses.until(waiting) > self._clock():
            self._move(waiting, "backoff")
        else:
            self._enter(waiting)

    def _enter(self, waiting: Waiting) -> None:
        """Make the pod ready, or send it to the lobby first if hooks apply to it."""
        if self._asks(waiting.pod):
            self._move(waiting, "asking")
        else:
            waiting.key = None
            self._move(waiting, "active")

    def _take(self, waiting: Waiting) -> None:
        self._move(waiting, "taken")
        waiting.attempts += 1
        waiting.seen, waiting.changed = self._happened.count, False

    def _move(self, waiting: Waiting, place: Place, *, new: bool = True) -> None:
        self._leave(waiting)
        self._at[place][waiting.pod.uid] = waiting
        waiting.place = place
        waiting.ticket = next(self._tickets)
        if place == "active":
            self._line.join(waiting)
        elif place == "backoff":
            self._pauses.begin(waiting)
        elif place == "unschedulable":
            self._helped.add(waiting)
        elif place == "held":
            self.lobby.hold(waiting, again=self._happened.since(waiting.seen, waiting.helped_by))
        elif place == "asking" and new:
            self.lobby.come(waiting)
            self.on_ask()

    def _leave(self, waiting: Waiting) -> None:
        self._at[waiting.place].pop(waiting.pod.uid, None)
        if waiting.place == "unschedulable":
            self._helped.remove(waiting)
        elif waiting.place in ("held", "asking"):
            self.lobby.leave(waiting)

    def _lost(self, waiting: Waiting) -> bool:
        """Whether the pod left the queue while it was being judged."""
        return self._waiting.get(waiting.pod.uid) is not waiting


def _differs(before: Pod, now: Pod) -> bool:
    """Whether spec, labels or annotations differ; the status does not say what a pod wants."""
    return (before.spec, before.labels, before.annotations) != (now.spec, now.labels, now.annotations)
