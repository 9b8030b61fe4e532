"""The journal on disk: one line per decision, written by a background thread.

If the disk is too slow or full, decisions are dropped and counted, and the next one is tried again. What
was written survives the death of the process. The node of a pod is seen in the cluster a moment later, and is
a line of its own.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bayplan.engine.entry import Entry, PodRef
from bayplan.recording.appended import AppendedFile
from bayplan.recording.backlog import Backlog
from bayplan.recording.journal_lines import JOURNAL_FORMAT, JournalHeader, NodeNames, Placed, PlacedPod
from bayplan.recording.journal_telling import line_of
from bayplan.recording.lines import Dropped, Line, RecordingError, moment
from bayplan.recording.sink import passes

log = logging.getLogger(__name__)

Nodes = Mapping[str, str]
"""The nodes of placed pods, by UID."""

_WAITING = 1000
_WAITING_BYTES = 64 * 1024 * 1024
_CLOSE_SECONDS = 10.0
_COMPLAIN_SECONDS = 60.0
_KNOWN_NAMES = 8
# A pod without a node by then was refused by another plugin, and will be decided about again.
_AWAIT_SECONDS = 60.0
_AWAITED = 10_000
_ENCODER = msgspec.json.Encoder()


@dataclass(frozen=True)
class JournalFileOptions:
    """The path and the size limits of the journal."""

    path: Path
    max_bytes: int = 100 * 1024 * 1024
    """A file of that size is renamed to ``FILE.1``, and a new one is begun."""
    keep: int = 5
    """How many renamed files are kept."""


class JournalFile:
    """Writes journal entries to disk. `add` may be called by any thread and does not block."""

    def __init__(
        self,
        options: JournalFileOptions,
        *,
        version: str,
        cluster: bool,
        schedules: bool = False,
        count: Callable[[str], None] = lambda _: None,
        quiet: Callable[[], bool] = lambda: True,
    ) -> None:
        """``cluster``: whether all nodes are known; ``schedules``: whether Bayplan places the pods.

        ``count`` is called with the result of each: written, dropped, failed.

        ``quiet`` says whether no request waits for an answer just now.
        """
        self._options = options
        self._version = version
        self._cluster = cluster
        self._schedules = schedules
        self._count = count
        self._problem = ""
        self._complained_at = float("-inf")
        self._lock = threading.Lock()
        self._dropped = 0
        self._known: deque[tuple[int, Sequence[str]]] = deque(maxlen=_KNOWN_NAMES)
        self._numbers = 0
        self._awaited: dict[str, tuple[float, PodRef]] = {}
        self._file = AppendedFile(options.path, max_bytes=options.max_bytes, keep=options.keep)
        try:
            self._file.open()
            self._begin()
        except OSError as error:
            if not passes(error):
                raise RecordingError(f"journal {options.path}: {error.strerror or error}") from error
            # As later on: it is tried again with each decision.
            self._problem = f"{options.path}: {error.strerror or error}"
            log.error("decisions are not written to the journal on disk: %s", self._problem)
        self._backlog: Backlog[Entry | Nodes] = Backlog(
            self._take,
            name="bayplan-journal",
            most=_WAITING,
            most_bytes=_WAITING_BYTES,
            quiet=quiet,
            at_end=self._end,
        )

    @property
    def path(self) -> Path:
        """The file that is written to."""
        return self._options.path

    @property
    def problem(self) -> str:
        """Why the last decision could not be written; ``""`` if it could."""
        return self._problem

    def add(self, entry: Entry) -> None:
        """Enqueue an entry."""
        if not self._backlog.offer(entry, entry.nbytes):
            self._drop("the disk is slower than the decisions")

    @property
    def awaited(self) -> list[PodRef]:
        """The pods whose node is not known yet."""
        return [who for _, who in list(self._awaited.values())]

    def look(self, nodes: Nodes) -> None:
        """Write the nodes of awaited pods; if the queue is full, the next call will do."""
        self._backlog.offer(nodes)

    def close(self) -> None:
        """Write the rest, and close the file."""
        self._backlog.close(_CLOSE_SECONDS)

    def _take(self, what: Entry | Nodes) -> None:
        try:
            # Rotated before the write: a file that cannot be rotated must not grow.
            if self._file.full:
                self._file.put_aside()
            if self._file.open():
                self._begin()
            self._say_dropped()
            if isinstance(what, Entry):
                self._write(line_of(what, nodes=self._name(what.names), schedules=self._schedules))
            else:
                self._tell_placed(what)
        except OSError as error:
            self._problem = f"{self._options.path}: {error.strerror or error}"
            # `look` is called again in a second.
            if isinstance(what, Entry):
                self._drop(self._problem)
        except Exception:
            # Whatever the error was, the next decision is tried.
            log.exception("a decision could not be written down: this is a bug in Bayplan")
            self._count("failed")
        else:
            self._problem = ""
            if isinstance(what, Entry):
                self._count("written")
                self._await(what)

    def _await(self, entry: Entry) -> None:
        """Await the pod's node."""
        uid = entry.pod.uid
        if entry.verb == "filter" and uid and entry.passed and len(self._awaited) < _AWAITED:
            self._awaited[uid] = time.monotonic(), entry.pod
        elif entry.verb == "bind" and not entry.error:
            self._awaited.pop(uid, None)

    def _tell_placed(self, nodes: Nodes) -> None:
        now = time.monotonic()
        for uid, (since, who) in list(self._awaited.items()):
            node = nodes.get(uid)
            if node:
                at = moment(datetime.now(UTC))
                self._write(Placed(at=at, pod=PlacedPod(who.namespace, who.name, uid), node=node))
            if node or now - since > _AWAIT_SECONDS:
                del self._awaited[uid]

    def _begin(self) -> None:
        self._known.clear()
        started = moment(datetime.now(UTC))
        self._write(
            JournalHeader(
                format=JOURNAL_FORMAT,
                bayplan=self._version,
                started=started,
                cluster=self._cluster,
                schedules=self._schedules,
            )
        )

    def _name(self, names: Sequence[str]) -> int:
        """The number of these names; writes them first if readers do not have them yet."""
        if not names:
            return 0
        for number, known in self._known:
            if known is names or (len(known) == len(names) and list(known) == list(names)):
                return number
        self._numbers += 1
        self._write(NodeNames(nodes=self._numbers, names=list(names)))
        self._known.append((self._numbers, names))
        return self._numbers

    def _say_dropped(self) -> None:
        count = self._dropped
        if count:
            self._write(Dropped(count=count))
            with self._lock:
                self._dropped -= count

    def _write(self, line: Line) -> None:
        self._file.write(_ENCODER.encode(line) + b"\n")

    def _drop(self, why: str) -> None:
        with self._lock:
            self._dropped += 1
            now = time.monotonic()
            silent = now - self._complained_at < _COMPLAIN_SECONDS
            self._complained_at = self._complained_at if silent else now
        self._problem = why
        self._count("dropped")
        if not silent:
            log.error("a decision is not in the journal on disk: %s; more are counted, not told", why)

    def _end(self) -> None:
        try:
            if not self._file.open():
                self._say_dropped()
        except OSError as error:
            log.error("the journal %s: %s", self._options.path, error.strerror or error)
        self._file.close()
