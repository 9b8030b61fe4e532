"""Reports to the members of waiting gangs why they wait, and when they have waited too long.

Members come one after another, and each new one makes earlier reports untrue. So reports are repeated after a
pause, which doubles. Nothing is held for a waiting gang; the nominated nodes of its members are given back at
the timeout.

Users may create thousands of gangs with any timeout, and the work for them must stay small. So a report that
did not change is neither logged nor put into the journal again, a gang that has waited too long is reported
again after longer and longer pauses, and of many gangs that are due only a few are reported in one go.
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
# The longest pause between two reports that a gang waits too long, unless its timeout is longer. Shorter than
# an Event's series lasts, so that the series goes on and the API server does not drop the Event.
_LATE_SECONDS = 300.0
# How many members are reported in one go (at least one gang): each takes a fraction of a millisecond.
_IN_ONE_GO = 16


@dataclass(eq=False)
class _Standing:
    """How long a gang waits, and what was reported to its members."""

    key: GangKey
    since: float
    """When the gang began to wait, or was last reported as waiting too long."""
    tell_at: float = math.inf
    """When to report that members are missing."""
    pause: float = _TELL_SECONDS[0]
    patience: float = 0.0
    """Pause until the next report that the gang waits too long; 0 before the first one."""
    told: dict[str, str] = field(default_factory=dict)
    """Of a gang that was judged: why each member has no node, by UID."""
    said: dict[str, str] = field(default_factory=dict)
    """The last report to each member, by UID."""
    due_at: float = math.inf
    ticket: int = 0
    """The ticket of ``due_at`` in the queue of due reports."""

    def late_at(self, gang: Gang) -> float:
        """When to report (again) that the gang waits too long."""
        return self.since + max(self.patience, gang.timeout_seconds)


class GangWatch:
    """All gangs with waiting members."""

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
        """Members are missing: report that to the others in a moment."""
        standing = self._of(key)
        standing.told = {}
        if standing.tell_at == math.inf:
            standing.tell_at = self._clock() + standing.pause
            standing.pause = min(2 * standing.pause, _TELL_SECONDS[1])
        self._due(standing, gang)

    def refused(self, band: Band, told: Mapping[str, str]) -> None:
        """A member does not fit: report why to each, and again when the gang has waited too long."""
        standing = self._of(band.key)
        standing.told = dict(told)
        standing.tell_at, standing.pause = math.inf, _TELL_SECONDS[0]
        self._due(standing, band.gang)
        self._tell(band, standing)

    def changed(self, key: GangKey, gang: Gang) -> None:
        """A member is gone and too few are left, so earlier reports are not true any more."""
        if key in self._standing:
            self.waits(key, gang)

    def done(self, key: GangKey) -> None:
        """Forget a gang that is placed or has no members any more."""
        gone = self._standing.pop(key, None)
        if gone is not None:
            gone.ticket = 0

    def next_seconds(self) -> float:
        """How long until the next report is due."""
        first = self._line.first()
        return math.inf if first is None else max(0.0, first[0] - self._clock())

    def flush(self) -> None:
        """Make the reports that are due; if they are many, a few of them, and the rest in the next turn."""
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
                # A failed report must not stop scheduling.
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
            # The gang is complete: its turn comes soon, and reports more.
            return
        counted = f"{band.title}: {band.discord}" if band.discord else band.counted()
        late = (
            f"{band.title}: not placed within {band.gang.timeout_seconds:g} s. " if standing.patience else ""
        )
        before, standing.said = standing.said, {}
        for one in band.waiting:
            if one.place in ("unschedulable", "backoff") and not band.complete:
                # Only the missing members can help it now, no other event.
                self._inbox.queue.park(one)
            uid = one.pod.uid
            said = standing.said[uid] = late + standing.told.get(uid, counted)
            # Repeated messages too: the reporter counts them, and retries what could not be written.
            self._reporter.unscheduled(one.pod, "Unschedulable", said)
            if before.get(uid) != said and uid not in standing.told:
                # For `why`; the decision about a judged member was recorded by `GangJudge`.
                self._record("filter", waits(one.pod, self._snapshot(), said))
        if standing.said != before and not standing.told:
            log.info("%s", counted)
