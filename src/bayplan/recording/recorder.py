"""Records a server's requests and answers, without making it wait.

The server hands over bytes and frozen snapshots, which it has anyway. A background thread turns them into
lines and writes those. If the thread falls behind, decisions are dropped and counted.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bayplan.kube.pod import Pod
from bayplan.recording.backlog import Backlog
from bayplan.recording.lines import FORMAT, Bound, Dropped, Header, Line, RecordingError, Unjudged, moment
from bayplan.recording.notes import Answered, Basis, Commitment, Narrator, Scheduled
from bayplan.recording.reader import is_worth_keeping
from bayplan.recording.sink import RecordingFile, older, passes
from bayplan.wire import v1
from bayplan.wire.codec import decode

log = logging.getLogger(__name__)

_QUEUE = 2000
_QUEUE_BYTES = 256 * 1024 * 1024
_CLOSE_SECONDS = 10.0
_ENCODER = msgspec.json.Encoder()


@dataclass(frozen=True)
class RecordOptions:
    """The path and the size limits of a recording."""

    file: Path
    max_bytes: int = 256 * 1024 * 1024
    """A file of that size is renamed to ``FILE.1``, replacing the one before, and a new one is begun."""
    snapshot_every_seconds: float = 600.0
    """How often the whole cluster is written again, so that a reader can go on after damage."""


class Recorder:
    """Records the decisions of a server. All methods belong to the event loop."""

    def __init__(
        self, options: RecordOptions, *, version: str, count: Callable[[str], None] = lambda _: None
    ) -> None:
        """``count`` is called with the result of each decision: written, dropped (too slow) or failed."""
        self._options = options
        self._version = version
        self._count = count
        self._lock = threading.Lock()
        self._dropped = 0
        self._narrator = Narrator()
        self._snapshot_at = float("-inf")
        self._written = 0
        self._stopped = ""
        try:
            self._file = self._begun(keep=is_worth_keeping)
        except OSError as error:
            if not passes(error):
                raise RecordingError(f"record {options.file}: {error.strerror or error}") from error
            # As later on: pods are placed, recorded or not.
            self._give_up(f"{options.file}: {error.strerror or error}")
        self._queue: Backlog[Answered | Commitment | Scheduled | Line] = Backlog(
            self._take,
            name="bayplan-recorder",
            most=_QUEUE,
            most_bytes=_QUEUE_BYTES,
            at_end=self._end,
        )

    @property
    def path(self) -> Path:
        """The file that is written to."""
        return self._options.file

    @property
    def problem(self) -> str:
        """Why recording has stopped; ``""`` while it works."""
        return self._stopped

    def answered(self, verb: str, body: bytes, answer: bytes, *, basis: Basis) -> None:
        """Record a request that policies answered."""
        self._offer(Answered(verb, body, answer, basis), len(body) + len(answer))

    def committed(
        self, pod: Pod, node: str, *, refusal: str, annotations: Mapping[str, str], basis: Basis
    ) -> None:
        """Record the policies' last check before a bind."""
        self._offer(Commitment(pod, node, refusal, annotations, basis))

    def bound(self, body: bytes, *, error: str) -> None:
        """Record the result of a bind."""
        args = decode(body, v1.ExtenderBindingArgs)
        pod = f"{args.pod_namespace}/{args.pod_name}"
        self._bound(pod, uid=args.pod_uid, node=args.node, error=error)

    def scheduled(self, what: Scheduled) -> None:
        """Record an attempt of the scheduler."""
        self._offer(what)

    def placed(self, pod: Pod, node: str, *, error: str) -> None:
        """Record the result of a bind of the scheduler."""
        self._bound(pod.key, uid=pod.uid, node=node, error=error)

    def unjudged(self, verb: str, error: str) -> None:
        """Record a request that was answered without policies."""
        self._offer(Unjudged(at=moment(datetime.now(UTC)), verb=verb, error=error))

    def close(self) -> None:
        """Write the rest, and close the file."""
        self._queue.close(_CLOSE_SECONDS)

    def _bound(self, pod: str, *, uid: str, node: str, error: str) -> None:
        self._offer(Bound(at=moment(datetime.now(UTC)), pod=pod, uid=uid, node=node, error=error))

    def _offer(self, what: Answered | Commitment | Scheduled | Line, size_bytes: int = 0) -> None:
        if self._stopped or not self._queue.offer(what, size_bytes):
            with self._lock:
                self._dropped += 1
            self._count("dropped")

    def _take(self, what: Answered | Commitment | Scheduled | Line) -> None:
        if self._stopped:
            return
        try:
            self._record(what)
            if self._queue.empty():
                self._file.flush()
            if not isinstance(what, Line):
                self._count("written")
        except OSError as error:
            self._stop(f"{self._options.file}: {error.strerror or error}")
        except Exception:
            # What the file has by now is uncertain: write everything anew.
            log.exception("a decision could not be recorded: this is a bug in Bayplan")
            self._narrator.forget()
            self._count("failed")

    def _end(self) -> None:
        if self._stopped:
            return
        try:
            self._say_dropped()
            self._file.close()
        except OSError as error:
            self._stop(f"{self._options.file}: {error.strerror or error}")

    def _stop(self, why: str) -> None:
        self._file.give_up()
        self._give_up(why)

    def _give_up(self, why: str) -> None:
        self._stopped = why
        log.error("nothing is recorded any more: %s", why)

    def _record(self, what: Answered | Commitment | Scheduled | Line) -> None:
        self._say_dropped()
        if time.monotonic() - self._snapshot_at > self._options.snapshot_every_seconds:
            self._narrator.forget()
            self._snapshot_at = time.monotonic()
        if isinstance(what, Line):
            self._write(what)
        else:
            for line in self._narrator.tell(what):
                self._write(line)
            self._written += 1
        if self._file.size_bytes >= self._options.max_bytes:
            self._rotate()

    def _rotate(self) -> None:
        if self._written <= 1:
            raise OSError(
                0, f"one decision and its cluster are larger than maxBytes, {self._options.max_bytes}"
            )
        self._file.close()
        self._file = self._begun()
        log.info("the recording goes on in %s; before: %s", self._file.path, older(self._file.path))

    def _begun(self, *, keep: Callable[[Path], bool] = lambda _: True) -> RecordingFile:
        """Begin a new file; the old one is renamed if it must be kept."""
        self._narrator.forget()
        self._snapshot_at = time.monotonic()
        self._written = 0
        header = Header(format=FORMAT, bayplan=self._version, started=moment(datetime.now(UTC)))
        return RecordingFile(self._options.file, first=_line(header), keep=keep)

    def _say_dropped(self) -> None:
        with self._lock:
            count, self._dropped = self._dropped, 0
        if count:
            self._write(Dropped(count=count))

    def _write(self, line: Line) -> None:
        self._file.write(_line(line))


def _line(line: Line) -> bytes:
    return _ENCODER.encode(line) + b"\n"
