"""Pods that wait for a node: who is next, who pauses a moment, who waits for something to happen.

A pod that was refused waits for news that may help it, and after each attempt for a pause that doubles: so a
pod that fits nowhere does not take everybody's time. News that comes while a pod is being judged is not lost:
it is looked at when the pod comes back. Where policies have a say in who comes in, a pod waits in the lobby.
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
    """The pods that wait. One task owns it; nothing here waits or asks anybody."""

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
        """``asks`` says of which pods policies have a say whether, and where, they come in."""
        self._clock = clock
        self._asks = asks
        self.on_ask: Callable[[], object] = lambda: None
        """Told when there may be somebody to ask about."""
        self._flush_seconds = flush_seconds
        self._waiting: dict[str, Waiting] = {}
        # By place as well: there may be ten thousand pods, and news with each one that gets its node.
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
        """How many pods wait, by the places that people know."""
        at = {place: len(pods) for place, pods in self._at.items()}
        return {
            "active": at["active"] + at["asking"],
            "backoff": at["backoff"],
            "unschedulable": at["unschedulable"],
            "gated": at["gated"] + at["held"],
            "gang": at["gang"],
        }

    def seconds_since(self, waiting: Waiting) -> float:
        """How long ago the pod was first seen, or its gates went, or it was let in."""
        return self._clock() - waiting.since

    def put(self, pod: Pod) -> None:
        """A pod wants a node, or is another one than it was; what was changed may help it."""
        known = self._waiting.get(pod.uid)
        if known is None:
            known = self._waiting[pod.uid] = Waiting(pod, self._clock())
            if pod.gated:
                self._move(known, "gated")
            else:
                self._enter(known)
            return
        changed = _says_else(known.pod, pod)
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
            # Also where it is being asked about: the answer is about a pod that is no more.
            self._move(known, "asking")

    def drop(self, uid: str) -> None:
        """The pod is gone, or has a node."""
        gone = self._waiting.pop(uid, None)
        if gone is not None:
            self._leave(gone)
            gone.ticket = 0

    def take(self) -> Waiting | None:
        """The next pod to be judged; ``None`` where none is ready."""
        self.flush()
        waiting = self._line.take()
        if waiting is not None:
            self._take(waiting)
        return waiting

    def take_early(self) -> Waiting | None:
        """A pod that there was news for, and that pauses still; for when no other one is ready.

        It is never sooner than after the first pause. One whose attempt went wrong pauses to the end.
        """
        waiting = self._pauses.early(self._clock())
        if waiting is None:
            return None
        self._enter(waiting)
        return self.take()

    def early_seconds(self) -> float:
        """How long there is no such pod."""
        return max(0.0, self._pauses.early_at() - self._clock())

    def ahead(self, count: int) -> list[Waiting]:
        """The next pods, as many as that, in their order; they stay where they are."""
        return self._line.ahead(count)

    def pods(self) -> list[Pod]:
        """Every pod, wherever it is."""
        return [waiting.pod for waiting in self._waiting.values()]

    def find(self, uid: str) -> Waiting | None:
        """The pod of that UID, wherever it is."""
        return self._waiting.get(uid)

    def take_too(self, waiting: Waiting) -> None:
        """Judge this one together with another whose turn it is; one that has left meanwhile stays out."""
        if not self._lost(waiting):
            self._take(waiting)

    def ask_first(self, others: Iterable[Waiting]) -> bool:
        """Whether some of these were refused and policies have a say before they are judged again."""
        refused = [one for one in others if one.place in ("backoff", "unschedulable") and self._asks(one.pod)]
        for one in refused:
            self._move(one, "asking")
        return bool(refused)

    def park(self, waiting: Waiting) -> None:
        """The pod waits for the others of its gang, whatever the news; that was no attempt."""
        if not self._lost(waiting):
            waiting.attempts -= waiting.place == "taken"
            waiting.tried_at = self._clock()
            self._move(waiting, "gang")

    def wake(self, uid: str) -> None:
        """A pod that waits for news is to look again, after its pause: things have changed for it alone."""
        known = self._waiting.get(uid)
        if known is not None and known.place == "unschedulable":
            self._wake(known)

    def unpark(self, waiting: Waiting) -> None:
        """The pod need not wait for others of its gang any more."""
        if waiting.place == "gang":
            self._enter(waiting)

    def refused(self, waiting: Waiting, *, helped_by: News, by: Collection[str] = ()) -> None:
        """No node was found: the pod waits for news that may help, or pauses where there was some by now."""
        if self._lost(waiting):
            return
        waiting.helped_by = helped_by or ANYTHING
        waiting.refused_by = frozenset(by)
        waiting.erred = False
        waiting.tried_at = self._clock()
        again = waiting.changed or self._happened.since(waiting.seen, waiting.helped_by)
        self._move(waiting, "backoff" if again else "unschedulable")

    def placed(self, waiting: Waiting) -> None:
        """A node was found, and the API server is asked: no news matters until that is settled."""
        if not self._lost(waiting):
            self._move(waiting, "placed")

    def failed(self, waiting: Waiting) -> None:
        """Something went wrong that is not the pod's fault: it comes again after its pause."""
        if self._lost(waiting):
            return
        waiting.erred, waiting.tried_at = True, self._clock()
        self._move(waiting, "backoff")

    def to_ask(self, limit: int, *, again: bool = True) -> list[tuple[int, Waiting]]:
        """Pods that policies are to be asked about, each with the ticket to answer with.

        With ``again`` also those that are kept out, and whose turn it is in a round.
        """
        found = self.lobby.next(limit, again=again)
        for waiting in found:
            self._move(waiting, "asking", new=False)
            waiting.seen = self._happened.count
        return [(waiting.ticket, waiting) for waiting in found]

    def ask_later(self, waiting: Waiting, ticket: int) -> None:
        """There was no time to ask about the pod."""
        if waiting.ticket != ticket:
            return
        if waiting.kept_out:
            self._move(waiting, "held")
            self.lobby.back(waiting)
        else:
            self._move(waiting, "asking")

    def let_in(self, waiting: Waiting, ticket: int, *, key: Any = None) -> bool:
        """Nobody keeps the pod out; whether it still wanted to know."""
        if waiting.ticket != ticket:
            return False
        if waiting.kept_out and not waiting.attempts:
            waiting.since = self._clock()
        waiting.key, waiting.kept_out = key, ""
        self._move(waiting, "active")
        return True

    def keep_out(self, waiting: Waiting, ticket: int, *, why: str, helped_by: News) -> bool:
        """A policy keeps the pod out, until there is news that may help; whether it still wanted to know."""
        if waiting.ticket != ticket:
            return False
        waiting.helped_by, waiting.kept_out = helped_by, why
        waiting.tried_at = self._clock()
        self._move(waiting, "held")
        return True

    def tell(self, news: News) -> int:
        """Something happened; how many pods of the queue it may help."""
        self._happened.add(news)
        helped = [waiting for kind in self._helped.kinds(news) for waiting in self._helped.of(kind)]
        for waiting in helped:
            self._wake(waiting)
        if self.lobby.tell(news):
            self.on_ask()
        return len(helped)

    def flush(self) -> None:
        """Whoever has paused long enough is ready; so is whoever has waited far too long, as a safety net."""
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
        """How long nothing will be ready without news; 0 where something is."""
        if self._at["active"]:
            return 0.0
        return max(0.0, min(self._flush_seconds / 10, self._pauses.next_at() - self._clock()))

    def _wake(self, waiting: Waiting) -> None:
        if self._pauses.until(waiting) > self._clock():
            self._move(waiting, "backoff")
        else:
            self._enter(waiting)

    def _enter(self, waiting: Waiting) -> None:
        """The pod would be judged next: where policies have a say in that, they are asked first."""
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
        """Whether the pod has left the queue while it was being judged."""
        return self._waiting.get(waiting.pod.uid) is not waiting


def _says_else(before: Pod, now: Pod) -> bool:
    """Whether anything that a policy may go by is different; a status says nothing of what a pod wants."""
    return (before.spec, before.labels, before.annotations) != (now.spec, now.labels, now.annotations)
