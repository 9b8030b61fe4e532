"""Writes known answers into metrics and journal, as if policies had been asked."""

from collections.abc import Sequence

from msgspec import Struct

from bayplan.engine.decision import Rows
from bayplan.engine.entry import PodRef
from bayplan.engine.journal import Journal
from bayplan.engine.memory import likeness
from bayplan.engine.standing import PASSES, Standing
from bayplan.engine.standing_entry import NO_CODES, NO_ROWS, StandingEntry
from bayplan.kube.pod import Pod
from bayplan.ops.metrics import Metrics
from bayplan.runtimes.extender.known import Known

# How many controllers may have pods waiting at a time.
_REMEMBERED = 64


class Mention(Struct, frozen=True, eq=False):
    """The pod and the nodes of a known answer, for the journal."""

    verb: str
    number: int
    """The decision's number in the journal."""
    seconds: float
    pod: Pod
    every_name: Sequence[str]
    known: Known
    rows: list[int] | Rows


class Cut(Struct, frozen=True):
    """Which of the passing nodes a shortened answer lists: their rows, best first."""

    rows: list[int]
    turn: int


class KnownRecord:
    """Puts known answers into the journal and the metrics."""

    def __init__(self, journal: Journal, metrics: Metrics, generation: int) -> None:
        self._journal = journal
        self._metrics = metrics
        self._generation = generation
        self._pods: dict[bytes, PodRef] = {}
        nobody = Pod()
        self._last = nobody, PodRef.of(nobody)

    def filtered(self, mention: Mention, cut: Cut | None, verdicts: bytes = b"") -> None:
        """Record a filter: which nodes passed, which were refused and why, and how it was ``cut``.

        ``verdicts`` are the verdicts on the request's nodes, if they were looked up already.
        """
        standing: Standing = mention.known.standing
        verdicts = verdicts or mention.known.verdicts_on(mention.rows)
        counts = [verdicts.count(code) for code in range(1 + len(standing.refusals))]
        groups = zip(standing.refusals, counts[1:], strict=True)
        refused = [(policy, reason, count) for (policy, reason), count in groups if count]
        self._metrics.judged("filter", refused, of=len(verdicts))
        self._write(mention, counts=counts)
        if cut is not None:
            self._metrics.left_out(counts[PASSES] - len(cut.rows))
            self._write(mention, cut=cut)

    def scored(self, mention: Mention) -> None:
        """Record a prioritize: the score of each node."""
        self._metrics.judged("prioritize", (), of=len(mention.rows))
        self._write(mention)

    def _write(self, mention: Mention, *, counts: Sequence[int] = (), cut: Cut | None = None) -> None:
        journal, standing = self._journal, mention.known.standing
        entry = StandingEntry(
            number=mention.number if cut is None else journal.next_number(),
            at=journal.clock(),
            verb=mention.verb if cut is None else "keep",
            generation=self._generation,
            pod=self._who(mention.pod),
            names=mention.every_name,
            rows=NO_ROWS,
            voices=(),
            refused_by=NO_CODES,
            seconds=mention.seconds,
            turn=0 if cut is None else cut.turn,
            standing=standing,
            asked=mention.rows,
            counts=counts,
            told=() if cut is None else cut.rows,
        )
        journal.keep(entry)

    def _who(self, pod: Pod) -> PodRef:
        """The journal's reference to the pod; cached, since a prioritize follows the filter."""
        last, known = self._last
        if last is not pod:
            known = self._like_others(pod)
            self._last = pod, known
        return known

    def _like_others(self, pod: Pod) -> PodRef:
        """A reference to the pod that shares its labels and requests with earlier pods of its controller."""
        alike = likeness(pod)
        known = self._pods.get(alike) if alike else None
        if known is not None:
            return known.named(pod.name, pod.uid)
        found = PodRef.of(pod)
        if alike:
            self._pods[alike] = found
            if len(self._pods) > _REMEMBERED:
                del self._pods[next(iter(self._pods))]
        return found
