"""Writes readings of sources as lines, and reads them back."""

import math
from collections.abc import Iterator, Mapping

from bayplan.recording.lines import LatchedKeys, RequestedBefore, SourceReading
from bayplan.snapshot.bynode import Scalar
from bayplan.snapshot.sources import NO_READINGS, Latch, Reading, Readings, Requested, Source

_INT64 = 2**63
_TYPES: dict[str, type] = {"float": float, "bool": bool, "str": str}


class ReadingsWriter:
    """Writes the readings that have changed."""

    def __init__(self) -> None:
        self._known: dict[str, Reading] = {}

    def forget(self) -> None:
        """Write the next readings as a whole."""
        self._known.clear()

    def lines(self, readings: Readings) -> Iterator[SourceReading]:
        """The lines of the readings that have changed."""
        for source, reading in readings.by_source.items():
            if self._known.get(source) is not reading:
                yield _line(source, reading)
                self._known[source] = reading


def _line(source: str, reading: Reading) -> SourceReading:
    before = reading.before
    return SourceReading(
        source=source,
        fields={name: _plain(values) for name, values in reading.fields.items()},
        version=reading.version,
        match=reading.match,
        latched=[
            LatchedKeys(latch.column.name, latch.above, latch.below, sorted(on), latch.column.type.__name__)
            for latch, on in reading.latched.items()
        ],
        before=RequestedBefore(list(before.names), [dict(r) for r in before.requests]) if before else None,
    )


def _plain(values: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Values that JSON can hold; large numbers as texts, which columns read as numbers."""
    return {key: value if _fits(value) else str(value) for key, value in values.items()}


def _fits(value: Scalar) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, str) or -_INT64 <= value < _INT64


class ReadingsReader:
    """Reads the lines, and has the last reading of each source."""

    def __init__(self) -> None:
        self._known: dict[str, Reading] = {}

    def apply(self, line: SourceReading) -> None:
        """Apply a line."""
        before = Requested(line.before.names, line.before.requests) if line.before else None
        latched = {
            Latch(Source(each.column, _TYPES[each.type]), each.above, each.below): frozenset(each.on)
            for each in line.latched
        }
        self._known[line.source] = Reading(line.fields, line.version, line.match, latched, before)

    def of(self, sources: list[str]) -> Readings:
        """The readings of these sources; raises `KeyError` for a source without a line."""
        return Readings({source: self._known[source] for source in sources}) if sources else NO_READINGS
