"""Writes changes of objects of other kinds than Node and Pod as lines, and reads them back."""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw

from bayplan.kube.kinds import EVERY_KIND
from bayplan.recording.lines import ObjectsChanged
from bayplan.recording.redact import kept_object
from bayplan.snapshot.objects import NO_OBJECTS, Objects, ObjectsOfKind

_ENCODER = msgspec.json.Encoder()
# Objects per line: making and encoding one holds the interpreter.
_OBJECTS_A_LINE = 200


class ObjectsWriter:
    """Writes what has changed since the objects that the lines so far describe."""

    def __init__(self) -> None:
        self._known: dict[str, ObjectsOfKind] = {}

    def forget(self) -> None:
        """Write the next objects as a whole."""
        self._known.clear()

    def lines(self, objects: Objects) -> Iterator[ObjectsChanged]:
        """The lines that lead from the last objects to these."""
        for kind in self._known.keys() | objects.by_kind.keys():
            before, now = self._known.get(kind), objects.of_kind(kind)
            if before is not now:
                yield from _changes(kind, before or {}, now)
                self._known[kind] = now


def _changes(kind: str, before: dict[str, Any], now: dict[str, Any]) -> Iterator[ObjectsChanged]:
    gone = [key for key in before if key not in now]
    came = [one for key, one in now.items() if before.get(key) is not one]
    for start in range(0, max(len(came), bool(gone)), _OBJECTS_A_LINE):
        part = came[start : start + _OBJECTS_A_LINE]
        yield ObjectsChanged(
            kind=kind,
            gone=[] if start else gone,
            came=[Raw(_ENCODER.encode(kept_object(one))) for one in part],
        )


class ObjectsReader:
    """Reads the lines, and has the objects that they describe so far."""

    def __init__(self) -> None:
        self._by_kind: dict[str, dict[str, Any]] = {}
        self._changed: set[str] = set()
        self._last = NO_OBJECTS

    def apply(self, line: ObjectsChanged) -> None:
        """Apply a line; raises `LookupError` for an unknown kind."""
        kind = EVERY_KIND[line.kind]
        there = self._by_kind.setdefault(line.kind, {})
        for key in line.gone:
            del there[key]
        for text in line.came:
            one = msgspec.json.decode(text, type=kind.part)
            there[kind.key(one)] = one
        self._changed.add(line.kind)

    def objects(self) -> Objects:
        """The objects; the same `Objects` until the next line."""
        if self._changed:
            fresh = {kind: ObjectsOfKind(self._by_kind[kind]) for kind in self._changed}
            self._last = Objects({**self._last.by_kind, **fresh})
            self._changed.clear()
        return self._last
