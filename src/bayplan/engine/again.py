"""A hook's answer out of the one it gave for a pod of the same kind, and a look at the nodes that changed."""

from collections.abc import Callable

import msgspec
import numpy as np
from numpy.typing import NDArray

from bayplan.authoring.registry import Hook
from bayplan.authoring.verdict import Score, Verdict
from bayplan.engine.combine import normalise
from bayplan.engine.decision import Outcome
from bayplan.engine.memory import Recalled
from bayplan.snapshot.marks import Rows
from bayplan.snapshot.table import NodeTable

_ABSOLUTE = (0, 100)


class Again:
    """The nodes that are judged again, and which of them have to be looked at."""

    def __init__(self, recalled: Recalled, nodes: NodeTable, rows: Rows) -> None:
        self._recalled = recalled
        self._rows = rows
        self._changed = nodes.take(rows)

    @classmethod
    def of_filters(cls, recalled: Recalled | None, nodes: NodeTable) -> "Again | None":
        """For filters, which see every node."""
        return None if recalled is None else cls(recalled, nodes, recalled.changed)

    @classmethod
    def of_scores(
        cls, recalled: Recalled | None, left: NodeTable, *, passed: NDArray[np.bool_], rows: Rows
    ) -> "Again | None":
        """For scores, which see the ``rows`` that are left; ``None`` where those are not the same as then."""
        if recalled is None or not np.array_equal(passed, recalled.said.frame.passed):
            return None
        changed = recalled.changed
        if rows.size < passed.size:
            changed = rows.searchsorted(changed[passed[changed]])
        return cls(recalled, left, changed)

    def verdict(self, hook: Hook, ask: Callable[[NodeTable], Verdict | None]) -> Outcome | None:
        """What a filter says; ``None`` where it has to be asked about every node."""
        found = self._recalled.of(hook)
        if found is None or found[0].verdict is None:
            return None
        known, reads = found
        if reads != "pods" or not self._rows.size:
            return known
        # A node that was refused, or is now, brings a reason with numbers of its own: nothing to be patched.
        if known.verdict is None or known.verdict.codes[self._rows].any():
            return None
        fresh = ask(self._changed)
        return None if fresh is None or fresh.codes.any() else known

    def score(self, hook: Hook, ask: Callable[[NodeTable], Score | None]) -> Outcome | None:
        """What a score says; ``None`` where it has to be asked about every node."""
        found = self._recalled.of(hook)
        if found is None:
            return None
        known, reads = found
        if reads != "pods" or not self._rows.size:
            return known
        before = known.score
        if before is None or before.detail or known.normalised is None:
            return None
        fresh = ask(self._changed)
        if fresh is None or fresh.detail:
            return None
        return rescored(known, self._rows, fresh)


def rescored(known: Outcome, rows: Rows, fresh: Score) -> Outcome:
    """What a score said, with other numbers for some nodes."""
    assert known.score is not None, "it had an opinion"
    assert known.normalised is not None, "it had an opinion"
    spec = known.hook.spec
    scores = patched(known.score.scores, rows, fresh.scores)
    if spec.range == _ABSOLUTE:
        part = normalise(fresh.scores, range=spec.range, best=spec.best)
        values = patched(known.normalised, rows, part)
    else:
        values = normalise(scores, range=spec.range, best=spec.best)
    return msgspec.structs.replace(known, score=Score(scores), normalised=values, written=None)


def patched(values: NDArray[np.float64], rows: Rows, fresh: NDArray[np.float64]) -> NDArray[np.float64]:
    """A copy with other values in some rows."""
    copy = values.copy()
    copy[rows] = fresh
    return copy
