"""When the pods on each node last changed: who has judged nodes before need not judge all of them again.

Two snapshots of one era have the same nodes in the same rows. What was said about a row still holds where
nothing happened on it since.
"""

import itertools
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]

# One clock for all: a moment that was drawn later is later, whoever drew it.
_moments = itertools.count(1)


@dataclass(frozen=True, eq=False)
class Marks:
    """The moment of the last change on each row."""

    moments: NDArray[np.int64]
    now: int
    """The moment of the snapshot itself."""
    era: object = field(default_factory=object)
    """Another one when nodes came, went or changed."""
    base: int = 0
    """Of a draft: the moment of the snapshot that it began with."""
    draft: object = None
    """Which draft this is of: its changes may never happen; ``None`` for the cluster itself."""

    @classmethod
    def begin(cls, count: int) -> "Marks":
        """A new era of so many rows."""
        moment = next(_moments)
        return cls(np.full(count, moment, dtype=np.int64), moment)

    def after(self, rows: Rows | int) -> "Marks":
        """The same era after changes on these rows."""
        moment = next(_moments)
        moments = self.moments.copy()
        moments[rows] = moment
        return Marks(moments, moment, self.era, self.base, self.draft)

    def drafted(self) -> "Marks":
        """The same, for a draft that begins here."""
        return Marks(self.moments, self.now, self.era, base=self.now, draft=object())

    def changed_since(self, before: "Marks") -> Rows | None:
        """The rows on which something is different than it was then; ``None`` where nodes are."""
        if self.era is not before.era:
            return None
        if before.draft is None or self.draft is before.draft:
            return np.flatnonzero(self.moments > before.now)
        # What was drafted then need not have happened: those rows are looked at again.
        return np.flatnonzero((self.moments > before.base) | (before.moments > before.base))
