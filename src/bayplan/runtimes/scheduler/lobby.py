"""The pods that wait for ``gate`` or ``order`` hooks, and those that a gate keeps out.

Ten thousand pods may be kept out, and each placed pod is an event. So an event only marks whole groups of
pods; their hooks run again in rounds, when `Asking` has time for one.
"""

import itertools
from collections import deque

from bayplan.runtimes.scheduler.by_news import ByNews
from bayplan.runtimes.scheduler.waiting import News, Waiting


class Lobby:
    """New pods, pods that are kept out, and those of them whose hooks should run again."""

    def __init__(self) -> None:
        self._new: dict[str, Waiting] = {}
        self._held = ByNews()
        self._due: dict[News, None] = {}
        self._round: deque[tuple[int, Waiting]] = deque()

    @property
    def due(self) -> bool:
        """Whether there are pods for another round."""
        return bool(self._due)

    @property
    def in_round(self) -> bool:
        """Whether a round is under way."""
        return bool(self._round)

    def come(self, waiting: Waiting) -> None:
        """Add a pod that is new or has changed."""
        self._new[waiting.pod.uid] = waiting

    def hold(self, waiting: Waiting, *, again: bool) -> None:
        """Keep the pod out; ``again``: an event that may help came meanwhile."""
        self._held.add(waiting)
        if again:
            self._due[waiting.helped_by] = None

    def leave(self, waiting: Waiting) -> None:
        """Remove a pod."""
        self._new.pop(waiting.pod.uid, None)
        self._held.remove(waiting)

    def tell(self, news: News) -> bool:
        """Announce an event; whether it may help a pod."""
        kinds = self._held.kinds(news)
        self._due.update(dict.fromkeys(kinds))
        return bool(kinds)

    def begin_round(self) -> None:
        """Begin a round over all pods that an event may have helped."""
        kinds, self._due = self._due, {}
        self._round.extend((each.ticket, each) for kind in kinds for each in self._held.of(kind))

    def back(self, waiting: Waiting) -> None:
        """Put a pod back into the round, since there was no time for it."""
        self._round.append((waiting.ticket, waiting))

    def next(self, limit: int, *, again: bool) -> list[Waiting]:
        """Take the next pods to run hooks for: new ones, and with ``again`` those of the round."""
        found = [self._new.pop(uid) for uid in list(itertools.islice(self._new, limit))]
        while again and self._round and len(found) < limit:
            ticket, waiting = self._round.popleft()
            if waiting.ticket == ticket:
                self._held.remove(waiting)
                found.append(waiting)
        return found
