"""What is said about pods of a kind, in the form that answers are put together from: a byte for each node."""

from collections.abc import Sequence
from itertools import compress
from operator import itemgetter

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from bayplan.engine.decision import Rows
from bayplan.engine.guard import Attempt
from bayplan.engine.standing import MOST_REFUSALS, PASSES, Standing, learn
from bayplan.kube.pod import Pod
from bayplan.runtimes.extender import assemble
from bayplan.runtimes.extender.host_lines import HostLines
from bayplan.runtimes.extender.verbs import Verbs
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.lookup import MANY
from bayplan.snapshot.objects import Objects
from bayplan.snapshot.sources import Readings
from bayplan.wire.scale import wire_scores

_MOST_GROUPS = 512
PASSED = b"\x01" + bytes(MOST_REFUSALS)
"""Translates verdicts into whether a node passes."""


class Refusal(Struct, frozen=True):
    """A reason as it stands in an answer."""

    chosen: bytes
    """Translates verdicts into whether it is this one."""
    text: str
    """As JSON."""
    failed: bool
    """Whether it goes to FailedNodes."""


class Known(Struct, frozen=True, eq=False):
    """What is said about each node, and how long that holds."""

    standing: Standing
    era: object
    objects: Objects
    readings: Readings
    verdicts: bytes
    """0 passes, ``k`` is refused for ``refusals[k - 1]``."""
    refusals: tuple[Refusal, ...]
    lines: list[str]
    """Names with scores, as they are sent; empty where there are none, or not the same whoever is asked."""
    scores: NDArray[np.uint8]
    """The scores of those lines."""
    every_line: HostLines | None
    """Lines of all nodes side by side, where they are many."""
    order: tuple[list[int], ...]
    """The nodes that pass, the best first, equals together; empty where it depends on who is asked about."""

    def holds(self, cluster: Snapshot, readings: Readings) -> bool:
        """Whether everything is as it was."""
        return self.era is cluster.era and self.objects is cluster.objects and self.readings is readings

    def verdicts_on(self, rows: list[int] | Rows) -> bytes:
        """The verdicts on these nodes."""
        return _picked(self.verdicts, rows)

    def priorities(self, names: Sequence[str], rows: list[int] | Rows) -> bytes | None:
        """The answer with the scores of these nodes; ``None`` where nobody has any."""
        many = self.every_line if len(rows) >= MANY else None
        if self.lines and many is None:
            places = rows if isinstance(rows, list) else rows.tolist()
            there = itemgetter(*places)(self.lines) if len(places) > 1 else [self.lines[places[0]]]
            return assemble.together(there)
        where = np.asarray(rows, dtype=np.intp)
        if self.lines:
            scores = self.scores[where]
        else:
            total = self.standing.total(where)
            if total is None:
                return None
            scores = wire_scores(total)
        if many is not None:
            return many.answer(where, scores)
        return assemble.priorities_answer(names, scores.tolist())

    def best_of(self, rows: set[int]) -> list[int] | None:
        """The best of these nodes that pass, all that are equally good; ``None`` where one passes or none."""
        found: list[int] = []
        for equals in self.order:
            there = rows.intersection(equals)
            if found and there:
                return found
            found = found or list(there)
            if len(found) > 1:
                return found
        return None

    def told_refusals(self, names: Sequence[str], verdicts: bytes) -> tuple[str, str]:
        """Refused names with reasons: those that eviction may help, and the others."""
        failed: list[str] = []
        unresolvable: list[str] = []
        for code, refusal in enumerate(self.refusals, start=1):
            if code not in verdicts:
                continue
            part = failed if refusal.failed else unresolvable
            refused = compress(names, verdicts.translate(refusal.chosen))
            part.append(assemble.refused(refused, refusal.text))
        return ",".join(failed), ",".join(unresolvable)


def know(verbs: Verbs, pod: Pod, cluster: Snapshot, readings: Readings, attempt: Attempt) -> Known | None:
    """Ask about every node, for pods like this one; ``None`` where that is of no use."""
    standing = learn(verbs.policies, pod, cluster.with_readings(readings), attempt)
    if standing is None or not verbs.spelling.is_plain(cluster.nodes.names):
        return None
    refusals = [
        Refusal(
            bytes(code) + b"\x01" + bytes(MOST_REFUSALS - code),
            assemble.spelt(reason.text),
            reason.preemptible and verbs.failed_nodes_heeded,
        )
        for code, (_, reason) in enumerate(standing.refusals, start=1)
    ]
    totals, names = standing.totals, cluster.nodes.names
    scores = wire_scores(() if totals is None else totals)
    return Known(
        standing,
        cluster.era,
        cluster.objects,
        readings,
        standing.verdicts.tobytes(),
        tuple(refusals),
        lines=[] if totals is None else list(map(assemble.priority, names, scores.tolist())),
        scores=scores,
        every_line=verbs.spelling.host_lines(names) if standing.scores and len(names) >= MANY else None,
        order=() if totals is None else _order(totals, standing.verdicts == PASSES),
    )


def _order(totals: NDArray[np.float64], passed: NDArray[np.bool_]) -> tuple[list[int], ...]:
    """The rows of nodes that pass, by score, equals together; nothing where too few are equals."""
    rows = np.flatnonzero(passed)
    rows = rows[np.argsort(-totals[rows], kind="stable")]
    ends = np.flatnonzero(np.diff(totals[rows])) + 1
    if ends.size >= _MOST_GROUPS:
        # Whoever is asked about few nodes would look through many groups.
        return ()
    return tuple(group.tolist() for group in np.split(rows, ends))


def _picked(every: bytes, rows: list[int] | Rows) -> bytes:
    """Of a byte for each node of the cluster, those of these rows."""
    if isinstance(rows, np.ndarray):
        return np.frombuffer(every, dtype=np.uint8)[rows].tobytes()
    return bytes([every[rows[0]]]) if len(rows) == 1 else bytes(itemgetter(*rows)(every))
