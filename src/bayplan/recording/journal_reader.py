"""Reads the decisions about one pod from all files of a journal on disk, and skips damaged lines."""

import contextlib
import glob
import os
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import msgspec

from bayplan.engine.entry import Entry
from bayplan.recording.journal_lines import JOURNAL_FORMAT, DecisionLine, JournalHeader, NodeNames, Placed
from bayplan.recording.journal_telling import entry_of
from bayplan.recording.lines import Dropped, RecordingError
from bayplan.recording.mistaken import said_of_snapshot
from bayplan.recording.reader import Damage, texts

# The last decisions are enough; each may be about thousands of nodes.
_KEPT = 100
_WARNINGS = 10
# A process may be killed in its first line; with more such lines, the file is no journal.
_TRIED_LINES = 3
_WANTED = "no journal of decisions: `bayplan serve --journal-file FILE` writes one"


class _Who(msgspec.Struct):
    namespace: str
    name: str


class _Other(Exception):
    """The file is another one of Bayplan's; the text says which."""


class _Glance(msgspec.Struct):
    """The few fields of a line that say whether it matters."""

    line: str
    pod: _Who | None = None
    nodes: int = 0


_GLANCE = msgspec.json.Decoder(_Glance)
_HEADER = msgspec.json.Decoder(JournalHeader)
_NAMES = msgspec.json.Decoder(NodeNames)
_DECISION = msgspec.json.Decoder(DecisionLine)
_PLACED = msgspec.json.Decoder(Placed)
_DROPPED = msgspec.json.Decoder(Dropped)
_UNREADABLE = (msgspec.MsgspecError, RecursionError, UnicodeError, ValueError)


@dataclass(frozen=True)
class Kept:
    """One decision about the pod."""

    entry: Entry
    cluster: bool
    """Whether the server knew the cluster: then the entry's names are all nodes."""
    schedules: bool = False
    """Whether the server placed pods itself."""


@dataclass
class PodJournal:
    """The decisions about a pod in a journal on disk."""

    key: str
    """``namespace/name``."""
    kept: deque[Kept] = field(default_factory=lambda: deque(maxlen=_KEPT))
    """The decisions, the newest last."""
    placed: dict[str, str] = field(default_factory=dict)
    """The node that a pod of that name was seen on, by UID."""
    warnings: list[str] = field(default_factory=list)
    """What is damaged or missing in the files."""

    def warn(self, text: str) -> None:
        """Add a warning, up to a limit."""
        if len(self.warnings) < _WARNINGS:
            self.warnings.append(text)
        elif len(self.warnings) == _WARNINGS:
            self.warnings.append("and more")


def read_journal(path: Path, key: str) -> PodJournal:
    """Read the decisions about the pod ``namespace/name``; raises `RecordingError` if it is no journal."""
    found = PodJournal(key)
    with contextlib.ExitStack() as stack:
        for each, file in _files(path, stack):
            _Scan(each, found).read(file)
    return found


def _files(path: Path, stack: contextlib.ExitStack) -> list[tuple[Path, BinaryIO]]:
    """The files, the oldest first; all are opened before one is read, since a server may rotate them."""
    opened: dict[tuple[int, int], tuple[Path, BinaryIO]] = {}
    # By a listing, not by counting up: a server killed while it renamed the files leaves a gap.
    for each in (path, *_older(path)):
        try:
            file = stack.enter_context(each.open("rb"))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise RecordingError(f"{each}: {error.strerror or error}") from error
        about = os.fstat(file.fileno())
        opened.setdefault((about.st_dev, about.st_ino), (each, file))
    if not opened:
        raise RecordingError(f"{path}: no such file; `bayplan serve --journal-file FILE` writes one")
    return list(opened.values())[::-1]


def _older(path: Path) -> list[Path]:
    """The rotated files, the newest first."""
    found = (each for each in path.parent.glob(f"{glob.escape(path.name)}.*") if each.suffix[1:].isdecimal())
    return sorted(found, key=lambda each: int(each.suffix[1:]))


class _Scan:
    """Reads one file, line by line."""

    def __init__(self, path: Path, found: PodJournal) -> None:
        self._path = path
        self._found = found
        self._cluster = False
        self._schedules = False
        self._names: dict[int, bytes | list[str]] = {}

    def read(self, file: BinaryIO) -> None:
        """Collect the lines about the pod."""
        begun = False
        for number, text in enumerate(texts(self._path, file), start=1):
            if isinstance(text, Damage):
                # A snapshot may be one line without an end, which looks like one that is cut off.
                self._refuse_snapshot(begun=begun)
                self._warn(str(text))
                continue
            try:
                self._line(text)
                begun = True
            except _Other as other:
                raise RecordingError(f"{self._path}: {other}") from None
            except _UNREADABLE as error:
                self._refuse_snapshot(begun=begun)
                if not begun and number >= _TRIED_LINES:
                    raise RecordingError(f"{self._path}: no journal of Bayplan: {error}") from None
                self._warn(f"line {number} is left out: {error}")

    def _refuse_snapshot(self, *, begun: bool) -> None:
        if not begun and (other := said_of_snapshot(self._path, _WANTED)):
            raise RecordingError(f"{self._path}: {other}")

    def _line(self, text: bytes) -> None:
        glance = _GLANCE.decode(text)
        if glance.line == "header":
            raise _Other("a recording, and no journal of decisions: `bayplan replay FILE` reads it")
        if glance.line == "journal":
            self._header(_HEADER.decode(text))
        elif glance.line == "nodes":
            # Decoded on demand: most names are for decisions about other pods.
            self._names[glance.nodes] = text
        elif glance.line == "dropped":
            count = _DROPPED.decode(text).count
            self._warn(f"{count} decisions are missing: the disk was too slow or full")
        elif glance.line in ("decision", "placed"):
            who = glance.pod
            if who is not None and f"{who.namespace}/{who.name}" == self._found.key:
                self._about_the_pod(glance.line, text)
        else:
            raise RecordingError(f"{glance.line!r} is no line of a journal")

    def _about_the_pod(self, kind: str, text: bytes) -> None:
        if kind == "placed":
            placed = _PLACED.decode(text)
            self._found.placed[placed.pod.uid] = placed.node
        else:
            line = _DECISION.decode(text)
            entry = entry_of(line, self._named(line.nodes))
            self._found.kept.append(Kept(entry, self._cluster, self._schedules))

    def _header(self, header: JournalHeader) -> None:
        if header.format != JOURNAL_FORMAT:
            use = f"use Bayplan {header.bayplan}"
            raise RecordingError(f"format {header.format}, and this Bayplan reads {JOURNAL_FORMAT}: {use}")
        self._cluster, self._schedules, self._names = header.cluster, header.schedules, {}

    def _named(self, number: int) -> list[str]:
        if not number:
            return []
        known = self._names.get(number)
        if known is None:
            raise RecordingError("the names of its nodes are not there")
        if isinstance(known, bytes):
            known = self._names[number] = _NAMES.decode(known).names
        return known

    def _warn(self, text: str) -> None:
        self._found.warn(f"{self._path.name}: {text}")
