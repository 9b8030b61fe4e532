"""The same said of a pod again and again: one Event, whose series counts how often.

As in kube-scheduler's recorder: the second time makes a series of it and is written at once, the others are
counted here. The count is written when the series is over, and now and then so that the API server, which
forgets an Event after an hour, does not. Other than there, another message is always another Event.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

_OVER_SECONDS = 360.0
_REFRESH_SECONDS = 1800.0
_LIMIT = 20_000


@dataclass(eq=False)
class Series:
    """One Event, and how often it was said."""

    event: dict[str, Any]
    observed: datetime
    """When it was said at last, for people."""
    observed_at: float
    """The same by our own clock."""
    count: int = 1
    written: int = 0
    """The count that the API server knows; 0 where it does not have the Event."""
    written_at: float = 0.0
    tried: int = 0
    """The count of the last try to write it."""
    on_its_way: bool = False
    """Whether it waits to be written, or is being written."""

    @property
    def news(self) -> bool:
        """Whether there is something that people must know now: that it is, or that it is a series."""
        return min(self.count, 2) > self.tried and not self.on_its_way

    def failed(self) -> None:
        """It could not be written. Where people have the Event, the count has time."""
        self.tried = 2 if self.written else 0


class SeriesBook:
    """What was said lately, by whom it was about and what it said."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, limit: int = _LIMIT) -> None:
        self._clock = clock
        self._limit = limit
        self._series: OrderedDict[tuple[str, str], Series] = OrderedDict()

    def __len__(self) -> int:
        return len(self._series)

    def said(self, uid: str, message: str, make: Callable[[], dict[str, Any]]) -> Series:
        """It was said of the pod once more; ``make`` makes the Event where it is the first time."""
        now, key = self._clock(), (uid, message)
        known = self._series.get(key)
        if known is not None and now - known.observed_at < _OVER_SECONDS:
            known.count += 1
            known.observed, known.observed_at = datetime.now(UTC), now
        else:
            known = self._series[key] = Series(make(), datetime.now(UTC), now)
        self._series.move_to_end(key)
        if len(self._series) > self._limit:
            self._series.popitem(last=False)
        return known

    def due(self) -> list[Series]:
        """Those whose count is to be written; what is over is not kept any longer."""
        now = self._clock()
        found = []
        while self._series:
            key, oldest = next(iter(self._series.items()))
            if now - oldest.observed_at < _OVER_SECONDS:
                break
            del self._series[key]
            if oldest.count > oldest.written:
                found.append(oldest)
        lately = now - _REFRESH_SECONDS
        found += [each for each in self._series.values() if each.count > 1 and each.written_at <= lately]
        return [each for each in found if not each.on_its_way]

    def wrote(self, series: Series, count: int) -> None:
        """The API server knows this count."""
        series.written, series.written_at = count, self._clock()
