"""Pods before the queue: policies are asked about them, and keep some of them out.

Ten thousand may be kept out, and there is news with each pod that is placed. So news only marks whole groups
of them; they are asked about again in rounds, when whoever asks has the time for one.
"""

import itertools
from collections import deque

from bayplan.runtimes.scheduler.by_news import ByNews
from bayplan.runtimes.scheduler.waiting import News, Waiting


class Lobby:
    """Who is to be asked about at once, who is kept out, and who of these is worth another question."""

    def __init__(self) -> None:
        self._new: dict[str, Waiting] = {}
        self._held = ByNews()
        self._due: dict[News, None] = {}
        self._round: deque[tuple[int, Waiting]] = deque()

    @property
    def due(self) -> bool:
        """Whether another round is worth it."""
        return bool(self._due)

    @property
    def in_round(self) -> bool:
        """Whether a round is not over yet."""
        return bool(self._round)

    def come(self, waiting: Waiting) -> None:
        """Nobody was asked about the pod as it is now."""
        self._new[waiting.pod.uid] = waiting

    def hold(self, waiting: Waiting, *, again: bool) -> None:
        """The pod is kept out; ``again`` where there was news meanwhile."""
        self._held.add(waiting)
        if again:
            self._due[waiting.helped_by] = None

    def leave(self, waiting: Waiting) -> None:
        """The pod is not here any more."""
        self._new.pop(waiting.pod.uid, None)
        self._held.remove(waiting)

    def tell(self, news: News) -> bool:
        """Something happened; whether it may help somebody."""
        kinds = self._held.kinds(news)
        self._due.update(dict.fromkeys(kinds))
        return bool(kinds)

    def begin_round(self) -> None:
        """Everybody whom news may have helped is asked about once more."""
        kinds, self._due = self._due, {}
        self._round.extend((each.ticket, each) for kind in kinds for each in self._held.of(kind))

    def back(self, waiting: Waiting) -> None:
        """There was no time for the pod in this round, and there will be."""
        self._round.append((waiting.ticket, waiting))

    def next(self, limit: int, *, again: bool) -> list[Waiting]:
        """The next to ask about: those that are new, and with ``again`` those of the round."""
        found = [self._new.pop(uid) for uid in list(itertools.islice(self._new, limit))]
        while again and self._round and len(found) < limit:
            ticket, waiting = self._round.popleft()
            if waiting.ticket == ticket:
                self._held.remove(waiting)
                found.append(waiting)
        return found
