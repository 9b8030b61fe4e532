"""Writes down what was answered at once: counted, and in the journal, as if policies had been asked."""

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

# As many controllers may have pods waiting at a time.
_REMEMBERED = 64


class Mention(Struct, frozen=True, eq=False):
    """Which pod and which nodes an answer was about."""

    verb: str
    number: int
    """In the journal."""
    seconds: float
    pod: Pod
    every_name: Sequence[str]
    known: Known
    rows: list[int] | Rows


class Cut(Struct, frozen=True):
    """Of an answer that was cut down: the rows that were told, the best first."""

    rows: list[int]
    turn: int


class KnownRecord:
    """Puts answers into the journal and the metrics."""

    def __init__(self, journal: Journal, metrics: Metrics, generation: int) -> None:
        self._journal = journal
        self._metrics = metrics
        self._generation = generation
        self._pods: dict[bytes, PodRef] = {}
        nobody = Pod()
        self._last = nobody, PodRef.of(nobody)

    def filtered(self, mention: Mention, cut: Cut | None, verdicts: bytes = b"") -> None:
        """Who passed, who did not and why; and of those that passed, who was told.

        ``verdicts`` are those on its nodes, where somebody has looked already.
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
        """How good each node is."""
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
        """The pod as the journal has it; one that was filtered is scored next."""
        last, known = self._last
        if last is not pod:
            known = self._like_others(pod)
            self._last = pod, known
        return known

    def _like_others(self, pod: Pod) -> PodRef:
        """It shares what it has in common with those like it."""
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
