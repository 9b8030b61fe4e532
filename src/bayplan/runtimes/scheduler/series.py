"""Counts repeated messages about a pod in the series of one Event.

As in kube-scheduler's recorder: the second occurrence starts the series and is written at once; further ones
are counted here. The count is written when the series is over, and from time to time before, since the API
server drops an Event after an hour. Unlike there, another message is always another Event.
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
    """One Event, and how often it occurred."""

    event: dict[str, Any]
    observed: datetime
    """When it last occurred, by the wall clock."""
    observed_at: float
    """When it last occurred, by the monotonic clock."""
    count: int = 1
    written: int = 0
    """The count that the API server has; 0 if it does not have the Event."""
    written_at: float = 0.0
    tried: int = 0
    """The count of the last attempt to write it."""
    on_its_way: bool = False
    """Whether it waits to be written, or is being written."""

    @property
    def news(self) -> bool:
        """Whether to write now: the Event is new, or has just become a series."""
        return min(self.count, 2) > self.tried and not self.on_its_way

    def failed(self) -> None:
        """A write failed; a new Event is retried at once, a count later."""
        self.tried = 2 if self.written else 0


class SeriesBook:
    """The recent series, by pod and message."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, limit: int = _LIMIT) -> None:
        self._clock = clock
        self._limit = limit
        self._series: OrderedDict[tuple[str, str], Series] = OrderedDict()

    def __len__(self) -> int:
        return len(self._series)

    def said(self, uid: str, message: str, make: Callable[[], dict[str, Any]]) -> Series:
        """Count the message for the pod; ``make`` makes the Event if it is the first time."""
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
        """The series whose count should be written; drops those that are over."""
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
        """Note that the API server has this count."""
        series.written, series.written_at = count, self._clock()
