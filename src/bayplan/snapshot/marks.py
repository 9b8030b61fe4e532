"""Marks say when the pods on each row last changed, so that verdicts can be reused for unchanged rows.

Two snapshots of one era have the same nodes in the same rows. A verdict about a row stays valid while the row
does not change.
"""

import itertools
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]

# A logical clock for the whole process.
_moments = itertools.count(1)


@dataclass(frozen=True, eq=False)
class Marks:
    """The logical time of the last change on each row."""

    moments: NDArray[np.int64]
    now: int
    """The time of the snapshot itself."""
    era: object = field(default_factory=object)
    """An identity that changes when nodes are added, removed or changed."""
    base: int = 0
    """In a draft: the time of the snapshot that it began with."""
    draft: object = None
    """The identity of the draft, whose changes may never happen; ``None`` for the cluster itself."""

    @classmethod
    def begin(cls, count: int) -> "Marks":
        """The marks of a new era with ``count`` rows."""
        moment = next(_moments)
        return cls(np.full(count, moment, dtype=np.int64), moment)

    def after(self, rows: Rows | int) -> "Marks":
        """The marks after changes on these rows."""
        moment = next(_moments)
        moments = self.moments.copy()
        moments[rows] = moment
        return Marks(moments, moment, self.era, self.base, self.draft)

    def drafted(self) -> "Marks":
        """The marks of a draft that begins here."""
        return Marks(self.moments, self.now, self.era, base=self.now, draft=object())

    def changed_since(self, before: "Marks") -> Rows | None:
        """The rows whose pods differ from ``before``; ``None`` if the nodes differ."""
        if self.era is not before.era:
            return None
        if before.draft is None or self.draft is before.draft:
            return np.flatnonzero(self.moments > before.now)
        # ``before`` is of another draft, whose changes may not have happened: its rows count as changed.
        return np.flatnonzero((self.moments > before.base) | (before.moments > before.base))
