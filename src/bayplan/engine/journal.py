"""The journal: the last decisions in memory, with every node's verdict and score in compact arrays.

Bounded in bytes. Of a pod it keeps name, labels and requests. Environment and volumes are not even decoded,
and annotations may hold anything, so they stay out too.
"""

import itertools
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bayplan.authoring.verdict import Score, Verdict
from bayplan.engine.decision import Decision, Outcome
from bayplan.engine.entry import Entry, PodRef, Voice, shared_bytes
from bayplan.kube.pod import Pod

log = logging.getLogger(__name__)

MAX_BYTES = 64 * 1024 * 1024
_NO_ROWS, _NO_CODES = np.zeros(0, dtype=np.uint32), np.zeros(0, dtype=np.int16)


@dataclass
class Journal:
    """The last entries, as many as fit into ``max_bytes``. Thread-safe."""

    max_bytes: int = MAX_BYTES
    clock: Callable[[], float] = time.time
    on_entry: list[Callable[[Entry], None]] = field(default_factory=list)
    """Called with each new entry, in the thread that writes it: must be quick."""

    before_reading: Callable[[], None] = lambda: None
    """Called in the reader's thread before each read, so that deferred entries are written first."""

    def __post_init__(self) -> None:
        self._entries: deque[tuple[Entry, int]] = deque()
        self._bytes = 0
        # How many entries hold each shared object, by its `id`, which is stable while one of them holds it.
        self._holders: Counter[int] = Counter()
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        nobody = Pod()
        self._last = nobody, PodRef.of(nobody)

    def next_number(self) -> int:
        """Reserve the number of a decision that will be written later."""
        return next(self._numbers)

    def write(
        self,
        verb: str,
        decision: Decision,
        *,
        generation: int,
        observe: bool = False,
        number: int | None = None,
    ) -> Entry:
        """Keep a decision, under its reserved number if it has one."""
        names, rows = decision.nodes.origin
        entry = Entry(
            number=self.next_number() if number is None else number,
            at=self.clock(),
            verb=verb,
            generation=generation,
            pod=self._who(decision.pod),
            names=names,
            rows=rows,
            voices=tuple(_voice(outcome) for outcome in decision.outcomes),
            refused_by=decision.refused_by,
            total=None if decision.total is None else decision.total.astype(np.float32),
            error=decision.error,
            not_in_view=decision.not_in_view,
            seconds=decision.seconds,
            observe=observe,
            kept=None if decision.kept is None else decision.kept.astype(np.uint32),
            turn=decision.turn,
        )
        return self.keep(entry)

    def _who(self, pod: Pod) -> PodRef:
        """The part of a pod that is kept; cached, since filter and prioritize of a pod follow each other."""
        last, known = self._last
        if last is not pod:
            known = PodRef.of(pod)
            # One assignment: another thread may read it at the same time.
            self._last = pod, known
        return known

    def note(self, verb: str, pod: PodRef, *, generation: int, error: str = "", **more: Any) -> Entry:
        """Keep an event that is no decision over nodes: a bind, a preemption."""
        entry = Entry(
            number=next(self._numbers),
            at=self.clock(),
            verb=verb,
            generation=generation,
            pod=pod,
            names=(),
            rows=_NO_ROWS,
            voices=(),
            refused_by=_NO_CODES,
            error=error,
            **more,
        )
        return self.keep(entry)

    def entries(self) -> list[Entry]:
        """All entries, newest first."""
        self.before_reading()
        with self._lock:
            return [entry for entry, _ in reversed(self._entries)]

    def of_pod(self, key: str) -> list[Entry]:
        """The entries about the pod ``namespace/name``, newest first."""
        return [entry for entry in self.entries() if entry.pod.key == key]

    def find(self, number: int) -> Entry | None:
        """The entry of that number; ``None`` if it is not kept any more."""
        return next((entry for entry in self.entries() if entry.number == number), None)

    @property
    def size_bytes(self) -> int:
        """Roughly the size of all entries in memory."""
        self.before_reading()
        return self._bytes

    def __len__(self) -> int:
        self.before_reading()
        return len(self._entries)

    def keep(self, entry: Entry) -> Entry:
        """Keep an entry; drops the oldest ones over the limit, and calls `on_entry`."""
        size = entry.nbytes
        with self._lock:
            self._entries.append((entry, size))
            self._bytes += size + self._share(entry)
            while self._bytes > self.max_bytes and len(self._entries) > 1:
                oldest, freed = self._entries.popleft()
                self._bytes -= freed + self._unshare(oldest)
        for tell in self.on_entry:
            try:
                tell(entry)
            except Exception:
                # A listener's error must not break a decision.
                log.exception("decision %d could not be told to everybody", entry.number)
        return entry

    def _share(self, entry: Entry) -> int:
        """Count the entry's shared objects; returns the bytes of those that no other entry holds."""
        fresh, holders = 0, self._holders
        for shared in entry.shared:
            key = id(shared)
            others = holders.get(key, 0)
            holders[key] = others + 1
            if not others:
                fresh += shared_bytes(shared)
        return fresh

    def _unshare(self, entry: Entry) -> int:
        """Release the entry's shared objects; returns the bytes of those that no other entry holds."""
        freed, holders = 0, self._holders
        for shared in entry.shared:
            key = id(shared)
            others = holders[key] - 1
            if others:
                holders[key] = others
            else:
                del holders[key]
                freed += shared_bytes(shared)
        return freed


def _voice(outcome: Outcome) -> Voice:
    known: Voice | None = outcome.written
    if known is None:
        known = _heard(outcome)
        msgspec.structs.force_setattr(known, "nbytes", known.weigh())
        msgspec.structs.force_setattr(outcome, "written", known)
    return known


def _heard(outcome: Outcome) -> Voice:
    hook = outcome.hook
    rows, codes, values = refused_rows(outcome.verdict)
    score: Score | None = outcome.score
    return Voice(
        policy=hook.policy,
        hook=hook.name,
        kind=hook.spec.kind,
        seconds=outcome.seconds,
        weight=outcome.weight,
        shadow=outcome.shadow,
        void=outcome.void,
        failure=outcome.failure.text if outcome.failure else "",
        ignored=outcome.ignored,
        reasons=outcome.verdict.reasons if outcome.verdict else (),
        rows=rows,
        codes=codes,
        values=(score.values,) if score is not None and score.detail else values,
        normalised=None if outcome.normalised is None else outcome.normalised.astype(np.float32),
        raw=None if score is None else np.asarray(score.scores, dtype=np.float32),
        score_detail="" if score is None else score.detail,
    )


def refused_rows(
    verdict: Verdict | None,
) -> tuple[NDArray[np.uint32] | None, NDArray[np.int16] | None, tuple[Mapping[str, Any], ...]]:
    """The rows that a verdict refuses, their codes, and the values of its details for these rows."""
    if verdict is None:
        return None, None, ()
    # Most filters refuse nothing, some cannot for lack of a reason, and counting is fast; `nonzero` is faster
    # on bools than on numbers.
    if not verdict.reasons or not np.count_nonzero(verdict.codes):
        return _NO_ROWS, _NO_CODES, ()
    refused = verdict.refused.nonzero()[0]
    places = refused if verdict.places is None else verdict.places[refused]
    count = len(verdict.codes) if verdict.places is None else None
    values = tuple(chosen(by_name, places, count) for by_name in verdict.values)
    # With one reason each code is 1, and need not be fetched.
    one = len(verdict.reasons) == 1
    codes = np.ones(len(refused), dtype=np.int16) if one else verdict.codes[refused]
    return refused.astype(np.uint32), codes, values


def chosen(values: Mapping[str, Any], places: NDArray[np.intp], count: int | None) -> dict[str, Any]:
    """The values of a detail for some of the ``count`` rows that they were given for, if that is known.

    What has no value for each row stays as it is: an explanation must never break a decision.
    """
    return {name: _chosen(value, places, count) for name, value in values.items()}


def _chosen(value: Any, places: NDArray[np.intp], count: int | None) -> Any:
    array = isinstance(value, np.ndarray) and value.ndim
    column = not array and hasattr(value, "take") and hasattr(value, "codes")
    # Last, since the check for any sequence is slow.
    if not (array or column or (isinstance(value, Sequence) and not isinstance(value, str | bytes))):
        return value
    if len(value) != count and (count is not None or not places.size or places.max() >= len(value)):
        return value
    if column:
        return value.take(places)
    return value[places] if array else [value[place] for place in places.tolist()]
