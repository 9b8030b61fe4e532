"""One decision in the journal's form: compact arrays, shared names, and a small part of the pod."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from sys import getsizeof
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from bayplan.authoring.verdict import Reason, fill
from bayplan.engine.decision import NOBODY
from bayplan.kube.pod import Pod
from bayplan.kube.quantity import QuantityError
from bayplan.snapshot.strings import Strings

_BASE_BYTES = 2048
_TEXT_BYTES = 64
"""Overhead of a text beside its letters: the object, and its slot in a list."""
_REASON_BYTES = 500
"""A reason beside its letters."""
_KEPT_LABELS = 32


class PodRef(Struct, frozen=True):
    """The part of a pod that the journal keeps."""

    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    requests: Mapping[str, int]
    priority: int
    scheduler: str

    @classmethod
    def of(cls, pod: Pod) -> "PodRef":
        """The reference to this pod."""
        labels = dict(pod.labels)
        if len(labels) > _KEPT_LABELS:
            labels = dict(itertools.islice(labels.items(), _KEPT_LABELS))
        try:
            requests = dict(pod.requests)
        except QuantityError:
            # A policy that read the requests has reported it; the others decided without them.
            requests = {}
        return cls(pod.namespace, pod.name, pod.uid, labels, requests, pod.priority, pod.scheduler_name)

    def named(self, name: str, uid: str) -> "PodRef":
        """The reference to another pod that differs only in name and UID."""
        return PodRef(self.namespace, name, uid, self.labels, self.requests, self.priority, self.scheduler)

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def letters(self) -> int:
        """The length of its own texts: a request may have any, whatever the API server allows."""
        return len(self.namespace) + len(self.name) + len(self.uid) + len(self.scheduler)

    @property
    def shared(self) -> tuple[object, ...]:
        """What pods of one controller have in common."""
        return self.labels, self.requests


class Voice(Struct, frozen=True, eq=False):
    """The result of one hook, in the journal's form. A struct, since it is made while a caller waits."""

    policy: str
    hook: str
    kind: str
    seconds: float
    weight: float = 0.0
    shadow: bool = False
    void: bool = False
    """Whether this is a soft filter that would have left no node, and so did not count."""
    failure: str = ""
    ignored: bool = False
    reasons: tuple[Reason, ...] = ()
    rows: NDArray[np.uint32] | None = None
    """Of a filter: the rows that it refused."""
    codes: NDArray[np.int16] | None = None
    """Of a filter: for each refused row, the number of its reason in ``reasons``, from 1."""
    values: tuple[Mapping[str, Any], ...] = ()
    """For each reason, the values of its detail, for the refused rows only; of a score, one for all rows."""
    normalised: NDArray[np.float32] | None = None
    """Of a score: each node's score, 0 to 100, NaN for no opinion."""
    raw: NDArray[np.float32] | None = None
    """Of a score: the numbers that the hook returned."""
    score_detail: str = ""
    """Of a score: the format string of its detail; ``values`` has the values for each node."""
    nbytes: int = 0
    """Roughly its size in memory; set when the journal keeps it."""

    def refusals(self) -> Iterator[tuple[int, Reason, str]]:
        """Row, reason and detail of each refused node."""
        if self.rows is None or self.codes is None:
            return
        for place, (row, code) in enumerate(zip(self.rows.tolist(), self.codes.tolist(), strict=True)):
            yield row, self.reasons[code - 1], self.detail(place)

    def detail(self, place: int) -> str:
        """The detail of refusal number ``place``, filled in with that node's values."""
        assert self.codes is not None
        code = int(self.codes[place])
        text = self.reasons[code - 1].detail
        return fill(text, self.values[code - 1], place) if text else ""

    def behind(self, place: int) -> str:
        """The numbers behind the score of the node at that position, in the words of the hook."""
        return fill(self.score_detail, self.values[0], place) if self.score_detail else ""

    def weigh(self) -> int:
        """Work out `nbytes`."""
        size = 400 + len(self.failure)
        for array in (self.rows, self.codes, self.normalised, self.raw):
            if array is not None:
                size += array.nbytes
        for values in self.values:
            for value in values.values():
                size += value_bytes(value)
        return size


class Entry(Struct, frozen=True, eq=False, kw_only=False):
    """One decision."""

    number: int
    at: float
    """Seconds since 1970."""
    verb: str
    generation: int
    pod: PodRef
    names: Sequence[str]
    """All names that ``rows`` points into; shared with other entries if possible."""
    rows: NDArray[np.uint32]
    """The index in ``names`` of each node, in the request's order."""
    voices: tuple[Voice, ...]
    """The result of each hook."""
    refused_by: NDArray[np.int16]
    """For each node, the index of the voice that refused it, or -1."""
    total: NDArray[np.float32] | None = None
    error: str = ""
    not_in_view: tuple[str, ...] = ()
    seconds: float = 0.0
    observe: bool = False
    dropped: tuple[tuple[str, str, str], ...] = ()
    """Of a preemption: node, policy and reason of each candidate that was dropped."""
    would_drop: tuple[tuple[str, str, str], ...] = ()
    """Of a preemption: node, policy and reason of each kept candidate that a shadow policy would drop."""
    node: str = ""
    """Of a bind or an eviction: the node."""
    kept: NDArray[np.uint32] | None = None
    """Of a ``keep``: the positions in ``rows`` of the nodes that the answer lists, best first."""
    turn: int = 0
    """Of a ``keep``: how many earlier answers listed other nodes to this pod."""
    others: tuple[str, ...] = ()
    """Of ``evict``: the pods that must leave for this one; of ``evicted``: the pod that it leaves for."""

    @property
    def nodes(self) -> list[str]:
        """The names of the nodes, in the request's order."""
        return [self.names[row] for row in self.rows.tolist()]

    def name(self, place: int) -> str:
        """The name of the node at that position in ``rows``."""
        return self.names[int(self.rows[place])]

    def kept_names(self, most: int | None = None) -> list[str]:
        """Of a ``keep``: the nodes that the answer lists, best first, at most ``most``."""
        return [] if self.kept is None else [self.name(place) for place in self.kept[:most].tolist()]

    @property
    def offered(self) -> int:
        """How many nodes the request asked about."""
        return len(self.rows) + len(self.not_in_view)

    @property
    def passed(self) -> int:
        """How many nodes passed."""
        return int(np.count_nonzero(self.refused_by == NOBODY))

    @property
    def result(self) -> str:
        """``error``, ``refused`` (no node is left, or a gate said no) or ``ok``."""
        if self.error:
            return "refused" if self.verb == "gate" else "error"
        return "refused" if self.verb == "filter" and not self.passed else "ok"

    def groups(self) -> Iterator[tuple[Voice, Reason, list[int]]]:
        """The refused nodes by voice and reason, as positions in the voice's ``rows``; each node once."""
        for number, voice in enumerate(self.voices):
            if voice.rows is None or voice.codes is None:
                continue
            mine = self.refused_by[voice.rows] == number
            for code, reason in enumerate(voice.reasons, start=1):
                places = np.flatnonzero(mine & (voice.codes == code))
                if places.size:
                    yield voice, reason, places.tolist()

    @property
    def nbytes(self) -> int:
        """Roughly its size in memory, without what it shares with other entries."""
        size = _BASE_BYTES + self.rows.nbytes + self.refused_by.nbytes
        for array in (self.total, self.kept):
            if array is not None:
                size += array.nbytes
        for voice in self.voices:
            size += voice.nbytes
        size += self.pod.letters
        texts = [self.error, self.node, *self.not_in_view, *self.others]
        for row in (*self.dropped, *self.would_drop):
            texts += row
        return size + len(texts) * _TEXT_BYTES + sum(map(len, texts))

    def refused_by_policy(self) -> Counter[str]:
        """How many nodes the filters of each policy refused; policies that refused none are left out."""
        found: Counter[str] = Counter()
        # The first count is that of `NOBODY`.
        for number, count in enumerate(np.bincount(self.refused_by - NOBODY).tolist()[1:]):
            if count:
                found[self.voices[number].policy] += count
        return found

    @property
    def shared(self) -> Sequence[object]:
        """Objects that other entries may hold too: names of nodes, values and labels, reasons."""
        found: list[object] = [self.names, *self.pod.shared]
        for voice in self.voices:
            found += voice.reasons
            for by_name in voice.values:
                found += [value.values for value in by_name.values() if isinstance(value, Strings)]
        return found


def shared_bytes(shared: Any) -> int:
    """Roughly the size of an object that entries share: its ``nbytes``, or that of texts or of a reason."""
    if isinstance(shared, Reason):
        return _REASON_BYTES + len(shared.text) + len(shared.detail) + len(shared.advice)
    known = getattr(shared, "nbytes", None)
    if known is not None:
        return int(known)
    if isinstance(shared, Mapping):
        return sum(2 * _TEXT_BYTES + len(name) + len(str(value)) for name, value in shared.items())
    # Node names are about equally long, so the first one stands for all.
    return len(shared) * (_TEXT_BYTES + len(shared[0])) if shared else 0


def value_bytes(value: Any) -> int:
    """Roughly the size of a detail's value, or of a column or list of values."""
    if type(value) is np.ndarray and not value.dtype.hasobject:
        return value.nbytes
    codes = getattr(value, "codes", value)
    if isinstance(codes, np.ndarray):
        return int(codes.nbytes) + (sum(map(getsizeof, codes.flat)) if codes.dtype.hasobject else 0)
    parts: Iterable[Any] = value if isinstance(value, list | tuple | Set) else ()
    if isinstance(value, Mapping):
        parts = itertools.chain(value, value.values())
    return getsizeof(value) + sum(map(getsizeof, parts))
