"""A decision that was known beforehand, as the journal keeps it: which nodes, and where to look up the rest.

There are thousands of these a minute, and few are ever looked at. So what each hook said about each node is
put together when somebody asks. Everything else of an entry is as ever.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bayplan.engine.decision import Rows, nobody
from bayplan.engine.entry import Entry, Voice
from bayplan.engine.standing import PASSES, Standing

_BYTES, _ROW_BYTES = 1024, 8
# In place of what is worked out when somebody asks.
NO_ROWS, NO_CODES = np.zeros(0, dtype=np.uint32), np.zeros(0, dtype=np.int16)


class StandingEntry(Entry, frozen=True, eq=False, kw_only=True):
    """One decision, made of what stands about each node: ``filter``, ``prioritize`` or ``keep``."""

    standing: Standing
    asked: list[int] | Rows
    """The rows that were asked about."""
    counts: Sequence[int] = ()
    """Of a filter: how many nodes have each verdict."""
    told: Sequence[int] = ()
    """Of an answer that was cut down: the rows that were told, the best first."""

    @property  # type: ignore[misc]
    def rows(self) -> NDArray[np.uint32]:
        """Which of the names the nodes were, in the order they were asked about."""
        rows = np.asarray(self.asked, dtype=np.uint32)
        return rows[self.standing.verdicts[rows] == PASSES] if self.told else rows

    @property  # type: ignore[misc]
    def voices(self) -> tuple[Voice, ...]:
        """What each hook said about these nodes."""
        rows = self.rows.astype(np.intp)
        hooks = self.standing.filters if self.verb == "filter" else self.standing.scores
        return tuple(said.voice(rows) for said in hooks)

    @property  # type: ignore[misc]
    def refused_by(self) -> NDArray[np.int16]:
        """A number a node: the voice that refused it, or -1."""
        rows = self.rows
        return self.standing.refused_by[rows] if self.verb == "filter" else nobody(len(rows))

    @property  # type: ignore[misc]
    def total(self) -> NDArray[np.float32] | None:
        """The combined score of each node."""
        total = None if self.verb == "filter" else self.standing.total(self.rows.astype(np.intp))
        return None if total is None else total.astype(np.float32)

    @property  # type: ignore[misc]
    def kept(self) -> NDArray[np.uint32] | None:
        """Of an answer that was cut down: the places of the nodes that were told, the best first."""
        if not self.told:
            return None
        rows = self.rows
        # Each of them is there once.
        return np.array([int((rows == row).argmax()) for row in self.told], dtype=np.uint32)

    @property
    def passed(self) -> int:
        """How many of them passed."""
        return self.counts[PASSES] if self.counts else len(self.rows)

    def refused_by_policy(self) -> Counter[str]:
        """How many nodes the filters of each policy refused."""
        found: Counter[str] = Counter()
        for (policy, _), count in zip(self.standing.refusals, self.counts[1:], strict=False):
            found[policy] += count
        return +found

    @property
    def nbytes(self) -> int:
        """Roughly what it takes, without what it shares with others."""
        return _BYTES + _ROW_BYTES * len(self.asked)

    @property
    def shared(self) -> Sequence[object]:
        """What other entries have too: names of nodes, and what is said about pods of the kind."""
        return (self.names, self.standing)
