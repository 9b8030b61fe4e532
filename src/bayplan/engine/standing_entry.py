"""A journal entry for a known answer: it keeps the rows, and derives the rest from the `Standing`.

There are thousands of these a minute, and few are ever read. So the results of each hook are put together
only when they are read.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bayplan.engine.decision import Rows, nobody
from bayplan.engine.entry import Entry, Voice
from bayplan.engine.standing import PASSES, Standing

_BYTES, _ROW_BYTES = 1024, 8
# Placeholders for fields that are derived when they are read.
NO_ROWS, NO_CODES = np.zeros(0, dtype=np.uint32), np.zeros(0, dtype=np.int16)


class StandingEntry(Entry, frozen=True, eq=False, kw_only=True):
    """One decision from known verdicts: a ``filter``, ``prioritize`` or ``keep``."""

    standing: Standing
    asked: list[int] | Rows
    """The rows of the request."""
    counts: Sequence[int] = ()
    """Of a filter: how many nodes have each verdict."""
    told: Sequence[int] = ()
    """Of a ``keep``: the rows that the answer lists, best first."""

    @property  # type: ignore[misc]
    def rows(self) -> NDArray[np.uint32]:
        """The index in ``names`` of each node, in the request's order."""
        rows = np.asarray(self.asked, dtype=np.uint32)
        return rows[self.standing.verdicts[rows] == PASSES] if self.told else rows

    @property  # type: ignore[misc]
    def voices(self) -> tuple[Voice, ...]:
        """Each hook's result for these nodes."""
        rows = self.rows.astype(np.intp)
        hooks = self.standing.filters if self.verb == "filter" else self.standing.scores
        return tuple(said.voice(rows) for said in hooks)

    @property  # type: ignore[misc]
    def refused_by(self) -> NDArray[np.int16]:
        """For each node, the index of the voice that refused it, or -1."""
        rows = self.rows
        return self.standing.refused_by[rows] if self.verb == "filter" else nobody(len(rows))

    @property  # type: ignore[misc]
    def total(self) -> NDArray[np.float32] | None:
        """The combined score of each node."""
        total = None if self.verb == "filter" else self.standing.total(self.rows.astype(np.intp))
        return None if total is None else total.astype(np.float32)

    @property  # type: ignore[misc]
    def kept(self) -> NDArray[np.uint32] | None:
        """Of a ``keep``: the positions in ``rows`` of the listed nodes, best first."""
        if not self.told:
            return None
        rows = self.rows
        # Each row occurs once.
        return np.array([int((rows == row).argmax()) for row in self.told], dtype=np.uint32)

    @property
    def passed(self) -> int:
        """How many nodes passed."""
        return self.counts[PASSES] if self.counts else len(self.rows)

    def refused_by_policy(self) -> Counter[str]:
        """How many nodes the filters of each policy refused."""
        found: Counter[str] = Counter()
        for (policy, _), count in zip(self.standing.refusals, self.counts[1:], strict=False):
            found[policy] += count
        return +found

    @property
    def nbytes(self) -> int:
        """Roughly its size in memory, without what it shares with other entries."""
        return _BYTES + _ROW_BYTES * len(self.asked) + self.pod.letters

    @property
    def shared(self) -> Sequence[object]:
        """Objects that other entries hold too: names of nodes, the `Standing`, labels of the pod."""
        return (self.names, self.standing, *self.pod.shared)
