"""One decision as the journal keeps it: compact arrays, shared names, of the pod no more than is shown."""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
"""What a text takes beside its letters: the object, and its place in a list."""
_KEPT_LABELS = 32


class PodRef(Struct, frozen=True):
    """Who a decision was about."""

    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    requests: Mapping[str, int]
    priority: int
    scheduler: str

    @classmethod
    def of(cls, pod: Pod) -> "PodRef":
        """The part of a pod that the journal keeps."""
        labels = dict(pod.labels)
        if len(labels) > _KEPT_LABELS:
            labels = dict(itertools.islice(labels.items(), _KEPT_LABELS))
        try:
            requests = dict(pod.requests)
        except QuantityError:
            # Whoever looked at them has told so; the others decided without, and that is to be seen.
            requests = {}
        return cls(pod.namespace, pod.name, pod.uid, labels, requests, pod.priority, pod.scheduler_name)

    def named(self, name: str, uid: str) -> "PodRef":
        """Another pod that differs from this one in nothing else."""
        return PodRef(self.namespace, name, uid, self.labels, self.requests, self.priority, self.scheduler)

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class Voice(Struct, frozen=True, eq=False):
    """What one hook said about the nodes. Made while somebody waits, and a struct is made sooner."""

    policy: str
    hook: str
    kind: str
    seconds: float
    weight: float = 0.0
    shadow: bool = False
    void: bool = False
    """A soft filter that would have left no node, and so did not count."""
    failure: str = ""
    ignored: bool = False
    reasons: tuple[Reason, ...] = ()
    rows: NDArray[np.uint32] | None = None
    """Of a filter: the rows it refused, with a number for the reason of each."""
    codes: NDArray[np.int16] | None = None
    values: tuple[Mapping[str, Any], ...] = ()
    """What fills in the details, for those rows alone."""
    normalised: NDArray[np.float32] | None = None
    """Of a score: 0 to 100 a node, NaN for no opinion."""
    raw: NDArray[np.float32] | None = None
    """The numbers as the hook gave them."""
    nbytes: int = 0
    """Roughly what it takes, where it is kept."""

    def refusals(self) -> Iterator[tuple[int, Reason, str]]:
        """Row, reason and detail of each node that it refused."""
        if self.rows is None or self.codes is None:
            return
        for place, (row, code) in enumerate(zip(self.rows.tolist(), self.codes.tolist(), strict=True)):
            yield row, self.reasons[code - 1], self.detail(place)

    def detail(self, place: int) -> str:
        """The detail of its refusal number ``place``, with the numbers of that node."""
        assert self.codes is not None
        code = int(self.codes[place])
        text = self.reasons[code - 1].detail
        return fill(text, self.values[code - 1], place) if text else ""

    def weigh(self) -> int:
        """Roughly what it takes, looked at anew; ``nbytes`` has it."""
        size = 400
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
    """Names that rows are numbers in; shared with other entries where it can be."""
    rows: NDArray[np.uint32]
    """Which of those names the nodes were, in the order they were asked about."""
    voices: tuple[Voice, ...]
    refused_by: NDArray[np.int16]
    """A number a node: the voice that refused it, or -1."""
    total: NDArray[np.float32] | None = None
    error: str = ""
    not_in_view: tuple[str, ...] = ()
    seconds: float = 0.0
    observe: bool = False
    dropped: tuple[tuple[str, str, str], ...] = ()
    """Of a preemption: node, policy and why, for each candidate that was left out."""
    would_drop: tuple[tuple[str, str, str], ...] = ()
    """The same for each candidate that a shadow policy would have left out, and nobody did."""
    node: str = ""
    """Of a bind and of an eviction: the node."""
    kept: NDArray[np.uint32] | None = None
    """Of an answer that was cut down: the places of the nodes that were told, the best first."""
    turn: int = 0
    """How often the pod was told others before them."""
    others: tuple[str, ...] = ()
    """Of ``evict``: the pods that have to leave for this one; of ``evicted``: the one that it leaves for."""

    @property
    def nodes(self) -> list[str]:
        """The nodes, in the order they were asked about."""
        return [self.names[row] for row in self.rows.tolist()]

    def name(self, place: int) -> str:
        """The node at that place among them."""
        return self.names[int(self.rows[place])]

    def kept_names(self, most: int | None = None) -> list[str]:
        """The nodes that were told of an answer that was cut down, the best first: so many, or all."""
        return [] if self.kept is None else [self.name(place) for place in self.kept[:most].tolist()]

    @property
    def offered(self) -> int:
        """How many nodes it was about."""
        return len(self.rows) + len(self.not_in_view)

    @property
    def passed(self) -> int:
        """How many of them passed."""
        return int(np.count_nonzero(self.refused_by == NOBODY))

    @property
    def result(self) -> str:
        """In a word: ``error``, ``refused`` where no node is left, ``ok``."""
        if self.error:
            return "refused" if self.verb == "gate" else "error"
        return "refused" if self.verb == "filter" and not self.passed else "ok"

    def groups(self) -> Iterator[tuple[Voice, Reason, list[int]]]:
        """Who refused which places for which reason; each place is with the one that counted."""
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
        """Roughly what it takes, without what it shares with others."""
        size = _BASE_BYTES + self.rows.nbytes + self.refused_by.nbytes
        for array in (self.total, self.kept):
            if array is not None:
                size += array.nbytes
        for voice in self.voices:
            size += voice.nbytes
        texts = [self.error, *self.not_in_view, *self.pod.labels, *self.pod.labels.values()]
        for row in (*self.dropped, *self.would_drop):
            texts += row
        return size + len(texts) * _TEXT_BYTES + sum(map(len, texts))

    def refused_by_policy(self) -> Counter[str]:
        """How many nodes the filters of each policy refused; policies that refused none are left out."""
        found: Counter[str] = Counter()
        # The first number is for `NOBODY`.
        for number, count in enumerate(np.bincount(self.refused_by - NOBODY).tolist()[1:]):
            if count:
                found[self.voices[number].policy] += count
        return found

    @property
    def shared(self) -> Sequence[object]:
        """What other entries may have too: names of nodes, values of labels."""
        values = (v for voice in self.voices for by_name in voice.values for v in by_name.values())
        return [self.names, *(value.values for value in values if isinstance(value, Strings))]


def shared_bytes(shared: Any) -> int:
    """Roughly what something takes that entries share: a list of texts, or what knows it itself."""
    known = getattr(shared, "nbytes", None)
    if known is not None:
        return int(known)
    # Names of nodes look alike: the first one is as long as any.
    return len(shared) * (_TEXT_BYTES + len(shared[0])) if shared else 0


def value_bytes(value: Any) -> int:
    """Roughly what a value of a detail takes, or a column of them."""
    codes = getattr(value, "codes", value)
    return int(codes.nbytes) if isinstance(codes, np.ndarray) else 64
