"""Time series of decisions in steps of five seconds: counts, durations, refusals.

It covers a quarter of an hour. Durations are counted in bins a fifth apart, so that a step is as large for a
thousand decisions as for one. `add` only stores an entry: it is counted when the series is read, or
by a background thread.
"""

import math
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from bayplan.engine.entry import Entry

STEP_SECONDS = 5
STEPS = 180
_LEAST_STEPS = 36
_BINS_A_DECADE = 12
_SHORTEST_SECONDS = 1e-6
_MAX_NAMES = 20
_BATCH = 256
_MOST_WAITING = 1000
OTHER = "other policies"


@dataclass
class Moment:
    """One step of five seconds."""

    at: int
    """The beginning of the step, in seconds since 1970."""
    results: Counter[str] = field(default_factory=Counter)
    """Decisions by result."""
    refused: Counter[str] = field(default_factory=Counter)
    """Refused nodes, by policy."""
    bins: dict[str, Counter[int]] = field(default_factory=dict)

    def percentile(self, verb: str, part: float) -> float | None:
        """The percentile of the durations, in seconds; ``None`` without decisions."""
        bins = self.bins.get(verb)
        if not bins:
            return None
        wanted = part * bins.total()
        for number in sorted(bins):
            wanted -= bins[number]
            if wanted <= 0:
                return float(_SHORTEST_SECONDS * 10 ** ((number + 0.5) / _BINS_A_DECADE))
        raise AssertionError("a part is at most the whole")


class Series:
    """The last steps. Any thread may add and read."""

    def __init__(self, *, later: Callable[[Callable[[], None]], object] = lambda work: work()) -> None:
        """``later`` runs work in a background thread."""
        self._later = later
        self._waiting: deque[Entry] = deque()
        self._moments: deque[Moment] = deque(maxlen=STEPS)
        self._lock = threading.Lock()

    def add(self, entry: Entry) -> None:
        """Add a decision."""
        self._waiting.append(entry)
        count = len(self._waiting)
        if count % _BATCH == 0:
            self._later(self.count)
        if count > _MOST_WAITING:
            # The background thread is busy, and entries must not pile up.
            self._count_one()

    def count(self) -> None:
        """Count the stored entries."""
        while self._count_one():
            pass

    def _count_one(self) -> bool:
        with self._lock:
            if not self._waiting:
                return False
            entry = self._waiting.popleft()
            moment = self._moment(int(entry.at) // STEP_SECONDS * STEP_SECONDS)
            moment.results[entry.result] += 1
            for policy, count in entry.refused_by_policy().items() if entry.verb == "filter" else ():
                known = policy in moment.refused or len(moment.refused) < _MAX_NAMES
                moment.refused[policy if known else OTHER] += count
            if entry.seconds > 0:
                number = math.floor(_BINS_A_DECADE * math.log10(entry.seconds / _SHORTEST_SECONDS))
                moment.bins.setdefault(entry.verb, Counter())[max(0, number)] += 1
        return True

    def moments(self, now: float) -> list[Moment]:
        """Every step up to now, the oldest first, with those in which nothing happened.

        Three minutes at least: what is a minute old is not squeezed into a corner.
        """
        self.count()
        with self._lock:
            known = {moment.at: moment for moment in self._moments}
        return every_step(known, now)

    def _moment(self, at: int) -> Moment:
        # An entry may be late, or the clock may go back: it counts in the newest step.
        if not self._moments or self._moments[-1].at < at:
            self._moments.append(Moment(at))
        return self._moments[-1]


def every_step(known: Mapping[int, Moment], now: float) -> list[Moment]:
    """The steps from the first that is known up to now, at least three minutes of them."""
    last = int(now) // STEP_SECONDS * STEP_SECONDS
    count = (last - min(known, default=last)) // STEP_SECONDS + 1
    count = max(_LEAST_STEPS, min(count, STEPS))
    steps = range(last - (count - 1) * STEP_SECONDS, last + 1, STEP_SECONDS)
    return [known.get(at) or Moment(at) for at in steps]


def verbs_of(moments: Iterable[Moment]) -> list[str]:
    """The verbs with durations."""
    return sorted({verb for moment in moments for verb in moment.bins})
