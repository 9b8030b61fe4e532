"""Gangs that wait: what their members are told, how often, and when they have waited too long.

Members come one after another, and each that comes makes what was said of the others untrue. So it is said
again after a pause, which doubles. Nothing is held for a gang that waits; a node that somebody made free for
one of its members is given back at the timeout.
"""

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bayplan.engine.decision import Decision
from bayplan.engine.gang_record import waits
from bayplan.kube.pod import Pod
from bayplan.ops.schedule_metrics import ScheduleMetrics
from bayplan.runtimes.scheduler.band import Band
from bayplan.runtimes.scheduler.inbox import Inbox
from bayplan.runtimes.scheduler.report import Reporter
from bayplan.runtimes.scheduler.roster import GangKey
from bayplan.snapshot.cluster import Snapshot

log = logging.getLogger(__name__)

_TELL_SECONDS = (0.5, 60.0)


@dataclass
class _Standing:
    """How long a gang waits, and what its members were told."""

    since: float
    tell_at: float = math.inf
    pause: float = _TELL_SECONDS[0]
    late: bool = False
    """Whether it has waited too long once."""
    told: dict[str, str] = field(default_factory=dict)
    """Of one that was judged: why it has no place, by UID."""


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
        self._next = math.inf

    @property
    def count(self) -> int:
        """How many gangs wait."""
        return len(self._standing)

    def waits(self, band: Band) -> None:
        """Not all are there: those who are wait, and are told so in a moment."""
        standing = self._of(band)
        standing.told = {}
        if standing.tell_at == math.inf:
            standing.tell_at = self._clock() + standing.pause
            standing.pause = min(2 * standing.pause, _TELL_SECONDS[1])
        self._due(standing, band)

    def refused(self, band: Band, told: Mapping[str, str]) -> None:
        """All are there, and one does not fit: each is told why, and again when it has waited too long."""
        standing = self._of(band)
        standing.told = dict(told)
        standing.tell_at, standing.pause = math.inf, _TELL_SECONDS[0]
        self._due(standing, band)
        self._tell(band, standing)

    def changed(self, key: GangKey) -> None:
        """A member is gone: what the others were told may not be true any more."""
        band = self._muster(key) if key in self._standing else None
        if band is not None and not band.complete:
            self.waits(band)

    def done(self, key: GangKey) -> None:
        """The gang has its places."""
        self._standing.pop(key, None)

    def next_seconds(self) -> float:
        """How long there is nothing to be told."""
        return max(0.0, self._next - self._clock())

    def flush(self) -> None:
        """Tell whoever is to be told by now."""
        now = self._clock()
        if now < self._next:
            return
        self._next = math.inf
        for key, standing in list(self._standing.items()):
            band = self._muster(key)
            if band is None:
                del self._standing[key]
                continue
            try:
                self._look(band, standing, now)
            except Exception:
                # Telling must not be what stops scheduling.
                log.exception("%s: nothing could be told of it", band.title)
            self._due(standing, band)

    def _look(self, band: Band, standing: _Standing, now: float) -> None:
        late = now >= standing.since + band.gang.timeout_seconds
        if late:
            standing.since, standing.late = now, True
            self._give_up(band)
        if late or now >= standing.tell_at:
            standing.tell_at = math.inf
            self._tell(band, standing)

    def _of(self, band: Band) -> _Standing:
        return self._standing.setdefault(band.key, _Standing(self._clock()))

    def _due(self, standing: _Standing, band: Band) -> None:
        self._next = min(self._next, standing.tell_at, standing.since + band.gang.timeout_seconds)

    def _give_up(self, band: Band) -> None:
        self._metrics.gangs.labels("timeout").inc()
        log.info("%s: not placed within %g s", band.title, band.gang.timeout_seconds)
        for one in band.waiting:
            self._inbox.give_back(one.pod.uid)

    def _tell(self, band: Band, standing: _Standing) -> None:
        if band.complete and not band.discord and not standing.told:
            # Its turn comes, and says more.
            return
        counted = f"{band.title}: {band.discord}" if band.discord else band.counted()
        late = f"{band.title}: not placed within {band.gang.timeout_seconds:g} s. " if standing.late else ""
        cluster = self._snapshot()
        for one in band.waiting:
            if one.place in ("unschedulable", "backoff") and not band.complete:
                # Nothing but the missing ones can help it now.
                self._inbox.queue.park(one)
            said = standing.told.get(one.pod.uid, counted)
            self._reporter.unscheduled(one.pod, "Unschedulable", late + said)
            self._note(one.pod, cluster, late + said, judged=one.pod.uid in standing.told)
        if not standing.told:
            log.info("%s", counted)

    def _note(self, pod: Pod, cluster: Snapshot, said: str, *, judged: bool) -> None:
        """What `why` tells of a member that is not judged."""
        if not judged:
            self._record("filter", waits(pod, cluster, said))
