"""What is known for pods of one kind: all verdicts and scores, ready to be assembled, or only some hooks'."""

from collections.abc import Sequence
from itertools import compress
from operator import itemgetter
from typing import ClassVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from bayplan.engine.decision import Rows
from bayplan.engine.guard import Attempt
from bayplan.engine.node_hooks import NodeHooks
from bayplan.engine.standing import MOST_REFUSALS, PASSES, Standing, learn, learn_hooks
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
"""For ``bytes.translate``: verdicts to 1 for a node that passes, 0 for the others."""


class Refusal(Struct, frozen=True):
    """A reason, in the form that an answer needs it."""

    chosen: bytes
    """For ``bytes.translate``: verdicts to 1 for a node that was refused for this reason."""
    text: str
    """The reason's text as JSON, with its quotes."""
    failed: bool
    """Whether the nodes go to FailedNodes; else to FailedAndUnresolvableNodes."""


class Learned(Struct, frozen=True, eq=False):
    """What was learned about pods of one kind on every node of the cluster depends on these."""

    era: object
    objects: Objects
    readings: Readings
    count: int
    """How many nodes the cluster has."""
    pays: ClassVar[int]
    """How often it must be used for learning it to have paid: to learn is to judge every node."""

    def holds(self, cluster: Snapshot, readings: Readings) -> bool:
        """Whether nodes, objects and sources are unchanged, so that it still holds."""
        return self.era is cluster.era and self.objects is cluster.objects and self.readings is readings


class KnownHooks(Learned, frozen=True, eq=False):
    """The results of the hooks that look at single nodes, where other hooks must be called for each pod."""

    pays: ClassVar[int] = 24
    hooks: NodeHooks


class Known(Learned, frozen=True, eq=False):
    """The verdict on each node of the cluster for pods of one kind."""

    pays: ClassVar[int] = 8
    standing: Standing
    verdicts: bytes
    """A byte for each row: 0 passes, ``k`` is refused for ``refusals[k - 1]``."""
    refusals: tuple[Refusal, ...]
    lines: list[str]
    """Each node's line of a prioritize answer; empty without scores, or if they depend on the nodes asked."""
    scores: NDArray[np.uint8]
    """The scores in `lines`."""
    every_line: HostLines | None
    """All lines as one block, in a cluster of `MANY` nodes or more."""
    order: tuple[list[int], ...]
    """The rows that pass, best first, grouped by score; empty if scores depend on the nodes asked."""

    def verdicts_on(self, rows: list[int] | Rows) -> bytes:
        """The verdicts on the nodes of these rows."""
        return _picked(self.verdicts, rows)

    def priorities(self, names: Sequence[str], rows: list[int] | Rows) -> bytes | None:
        """The prioritize answer for these nodes; ``None`` if no policy scores."""
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
        """The rows among these with the best score; ``None`` if no more than one row passes."""
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
        """Refused names with reasons, as JSON: for FailedNodes, and for FailedAndUnresolvableNodes."""
        failed: list[str] = []
        unresolvable: list[str] = []
        for code, refusal in enumerate(self.refusals, start=1):
            if code not in verdicts:
                continue
            part = failed if refusal.failed else unresolvable
            refused = compress(names, verdicts.translate(refusal.chosen))
            part.append(assemble.refused(refused, refusal.text))
        return ",".join(failed), ",".join(unresolvable)


def know(
    verbs: Verbs, pod: Pod, cluster: Snapshot, readings: Readings, attempt: Attempt
) -> Known | KnownHooks | None:
    """Ask the policies about this pod on every node; ``None`` if nothing of what they say can be reused."""
    seen = cluster.with_readings(readings)
    basis = cluster.era, cluster.objects, readings, len(cluster.nodes)
    plain = verbs.spelling.is_plain(cluster.nodes.names)
    standing = learn(verbs.policies, pod, seen, attempt) if plain else None
    if standing is None:
        hooks = learn_hooks(verbs.policies, pod, seen, attempt)
        return None if hooks is None else KnownHooks(*basis, hooks)
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
        *basis,
        standing,
        standing.verdicts.tobytes(),
        tuple(refusals),
        lines=[] if totals is None else list(map(assemble.priority, names, scores.tolist())),
        scores=scores,
        every_line=verbs.spelling.host_lines(names) if standing.scores and len(names) >= MANY else None,
        order=() if totals is None else _order(totals, standing.verdicts == PASSES),
    )


def _order(totals: NDArray[np.float64], passed: NDArray[np.bool_]) -> tuple[list[int], ...]:
    """The rows that pass, best score first, grouped by score; nothing if there are too many groups."""
    rows = np.flatnonzero(passed)
    rows = rows[np.argsort(-totals[rows], kind="stable")]
    ends = np.flatnonzero(np.diff(totals[rows])) + 1
    if ends.size >= _MOST_GROUPS:
        # A request of few nodes would search through too many groups.
        return ()
    return tuple(group.tolist() for group in np.split(rows, ends))


def _picked(every: bytes, rows: list[int] | Rows) -> bytes:
    """The bytes of these rows, out of one byte for each node of the cluster."""
    if isinstance(rows, np.ndarray):
        return np.frombuffer(every, dtype=np.uint8)[rows].tobytes()
    return bytes([every[rows[0]]]) if len(rows) == 1 else bytes(itemgetter(*rows)(every))
