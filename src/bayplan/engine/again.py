"""Derives a hook's outcome from its outcome for a similar pod, by running it on the changed nodes only."""

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
    """Recalled outcomes for a table of nodes, and the rows of it that changed."""

    def __init__(self, recalled: Recalled, nodes: NodeTable, rows: Rows) -> None:
        self._recalled = recalled
        self._rows = rows
        self._changed = nodes.take(rows)

    @classmethod
    def of_filters(cls, recalled: Recalled | None, nodes: NodeTable) -> "Again | None":
        """For filters, which run over every node."""
        return None if recalled is None else cls(recalled, nodes, recalled.changed)

    @classmethod
    def of_scores(
        cls, recalled: Recalled | None, left: NodeTable, *, passed: NDArray[np.bool_], rows: Rows
    ) -> "Again | None":
        """For scores, which run over the ``rows`` that passed; ``None`` if other rows passed then."""
        if recalled is None or not np.array_equal(passed, recalled.said.frame.passed):
            return None
        changed = recalled.changed
        if rows.size < passed.size:
            changed = rows.searchsorted(changed[passed[changed]])
        return cls(recalled, left, changed)

    def verdict(self, hook: Hook, ask: Callable[[NodeTable], Verdict | None]) -> Outcome | None:
        """A filter's outcome; ``None`` if the filter must run over every node."""
        found = self._recalled.of(hook)
        if found is None or found[0].verdict is None:
            return None
        known, reads = found
        if reads != "pods" or not self._rows.size:
            return known
        # A refusal's detail has numbers of its own for each node, which cannot be patched in.
        if known.verdict is None or known.verdict.codes[self._rows].any():
            return None
        fresh = ask(self._changed)
        return None if fresh is None or fresh.codes.any() else known

    def score(self, hook: Hook, ask: Callable[[NodeTable], Score | None]) -> Outcome | None:
        """A score hook's outcome; ``None`` if the hook must run over every node."""
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
    """The outcome of a score hook, with fresh scores in some rows."""
    assert known.score is not None, "the hook had an opinion"
    assert known.normalised is not None, "the hook had an opinion"
    spec = known.hook.spec
    scores = patched(known.score.scores, rows, fresh.scores)
    if spec.range == _ABSOLUTE:
        part = normalise(fresh.scores, range=spec.range, best=spec.best)
        values = patched(known.normalised, rows, part)
    else:
        values = normalise(scores, range=spec.range, best=spec.best)
    return msgspec.structs.replace(known, score=Score(scores), normalised=values, written=None)


def patched(values: NDArray[np.float64], rows: Rows, fresh: NDArray[np.float64]) -> NDArray[np.float64]:
    """A copy of ``values``, with fresh values in some rows."""
    copy = values.copy()
    copy[rows] = fresh
    return copy
