"""Gangs that wait: what their members are told, how often, and when they have waited too long.

Members come one after another, and each that comes makes what was said of the others untrue. So it is said
again after a pause, which doubles. Nothing is held for a gang that waits; a node that somebody made free for
one of its members is given back at the timeout.

Anybody may make gangs, thousands of them, and say how long they wait: whatever that is, the work for them
must stay small beside that for everybody else. So what was said already is neither logged nor written down
again, a gang that has waited too long is told so again after longer and longer pauses, and of many gangs that
are to be told at the same moment only a few are, before others have their turn.
"""

import itertools
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bayplan.authoring.gang import Gang
from bayplan.engine.company import GangKey
from bayplan.engine.decision import Decision
from bayplan.engine.gang_record import waits
from bayplan.ops.schedule_metrics import ScheduleMetrics
from bayplan.runtimes.scheduler.band import Band
from bayplan.runtimes.scheduler.inbox import Inbox
from bayplan.runtimes.scheduler.report import Reporter
from bayplan.runtimes.scheduler.tickets import Tickets
from bayplan.snapshot.cluster import Snapshot

log = logging.getLogger(__name__)

_TELL_SECONDS = (0.5, 60.0)
# The longest pause between two times of being told that it waits too long, unless its timeout is longer. Less
# than after what an Event is over: it goes on counting, and the API server does not forget it.
_LATE_SECONDS = 300.0
# So many members are told in one go, or one gang: each takes a fraction of a millisecond, and pods wait.
_IN_ONE_GO = 16


@dataclass(eq=False)
class _Standing:
    """How long a gang waits, and what its members were told."""

    key: GangKey
    since: float
    """When it began to wait, or was told at last that it waits too long."""
    tell_at: float = math.inf
    pause: float = _TELL_SECONDS[0]
    patience: float = 0.0
    """Of one that has waited too long: until it is told so again."""
    told: dict[str, str] = field(default_factory=dict)
    """Of one that was judged: why it has no place, by UID."""
    said: dict[str, str] = field(default_factory=dict)
    """What each member was told at last, by UID."""
    due_at: float = math.inf
    ticket: int = 0
    """Of ``due_at`` in the line of those who are to be told."""

    def late_at(self, gang: Gang) -> float:
        """When it has waited too long, or is to be told so again."""
        return self.since + max(self.patience, gang.timeout_seconds)


class GangWatch:
    """Every gang of which somebody waits."""

    def __init__(
        self,
        muster: Callable[[GangKey], Band | None],
        *,
        inbox: Inbox,
        reporter: Reporter,
        metrics: ScheduleMetrics,
        snapshot: Callable[[], Snapshot],
        record: Callable[[str, Decision], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._muster = muster
        self._inbox = inbox
        self._reporter = reporter
        self._metrics = metrics
        self._snapshot = snapshot
        self._record = record
        self._clock = clock
        self._standing: dict[GangKey, _Standing] = {}
        self._line: Tickets[float, _Standing] = Tickets()
        self._numbers = itertools.count(1)

    @property
    def count(self) -> int:
        """How many gangs wait."""
        return len(self._standing)

    def waits(self, key: GangKey, gang: Gang) -> None:
        """Not all are there: those who are wait, and are told so in a moment."""
        standing = self._of(key)
        standing.told = {}
        if standing.tell_at == math.inf:
            standing.tell_at = self._clock() + standing.pause
            standing.pause = min(2 * standing.pause, _TELL_SECONDS[1])
        self._due(standing, gang)

    def refused(self, band: Band, told: Mapping[str, str]) -> None:
        """All are there, and one does not fit: each is told why, and again when it has waited too long."""
        standing = self._of(band.key)
        standing.told = dict(told)
        standing.tell_at, standing.pause = math.inf, _TELL_SECONDS[0]
        self._due(standing, band.gang)
        self._tell(band, standing)

    def changed(self, key: GangKey, gang: Gang) -> None:
        """A member is gone, and too few are left: what the others were told is not true any more."""
        if key in self._standing:
            self.waits(key, gang)

    def done(self, key: GangKey) -> None:
        """The gang has its places, or nobody of it is there any more."""
        gone = self._standing.pop(key, None)
        if gone is not None:
            gone.ticket = 0

    def next_seconds(self) -> float:
        """How long there is nothing to be told."""
        first = self._line.first()
        return math.inf if first is None else max(0.0, first[0] - self._clock())

    def flush(self) -> None:
        """Tell whoever is to be told by now; where that are many, a few, and the others in the next turn."""
        now, left = self._clock(), _IN_ONE_GO
        while left > 0 and (first := self._line.first()) is not None and first[0] <= now:
            standing = first[2]
            band = self._muster(standing.key)
            if band is None:
                left -= 1
                self.done(standing.key)
                continue
            left -= len(band.waiting)
            try:
                self._look(band, standing, now)
            except Exception:
                # Telling must not be what stops scheduling.
                log.exception("%s: nothing could be told of it", band.title)
            self._due(standing, band.gang)

    def _look(self, band: Band, standing: _Standing, now: float) -> None:
        late = now >= standing.late_at(band.gang)
        if late:
            self._give_up(band, standing)
        if late or now >= standing.tell_at:
            standing.tell_at = math.inf
            self._tell(band, standing)

    def _of(self, key: GangKey) -> _Standing:
        known = self._standing.get(key)
        if known is None:
            known = self._standing[key] = _Standing(key, self._clock())
        return known

    def _due(self, standing: _Standing, gang: Gang) -> None:
        due_at = min(standing.tell_at, standing.late_at(gang))
        if due_at != standing.due_at or not standing.ticket:
            standing.due_at, standing.ticket = due_at, next(self._numbers)
            self._line.push((due_at, standing.ticket, standing))

    def _give_up(self, band: Band, standing: _Standing) -> None:
        timeout = band.gang.timeout_seconds
        if not standing.patience:
            self._metrics.gangs.labels("timeout").inc()
            log.info("%s: not placed within %g s", band.title, timeout)
        standing.since = self._clock()
        standing.patience = min(2 * max(standing.patience, timeout), _LATE_SECONDS)
        for one in band.waiting:
            self._inbox.give_back(one.pod.uid)

    def _tell(self, band: Band, standing: _Standing) -> None:
        if band.complete and not band.discord and not standing.told:
            # Its turn comes, and says more.
            return
        counted = f"{band.title}: {band.discord}" if band.discord else band.counted()
        late = (
            f"{band.title}: not placed within {band.gang.timeout_seconds:g} s. " if standing.patience else ""
        )
        before, standing.said = standing.said, {}
        for one in band.waiting:
            if one.place in ("unschedulable", "backoff") and not band.complete:
                # Nothing but the missing ones can help it now.
                self._inbox.queue.park(one)
            uid = one.pod.uid
            said = standing.said[uid] = late + standing.told.get(uid, counted)
            # Also the same again: it is counted there, and what could not be written is tried again.
            self._reporter.unscheduled(one.pod, "Unschedulable", said)
            if before.get(uid) != said and uid not in standing.told:
                # For `why`; the decision about one that was judged is written down by who judged it.
                self._record("filter", waits(one.pod, self._snapshot(), said))
        if standing.said != before and not standing.told:
            log.info("%s", counted)
