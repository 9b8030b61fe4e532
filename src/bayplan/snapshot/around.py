"""The weights of pods on the nodes of a cluster, also where each node is a what-if of its own.

In a snapshot of cases (`Snapshot.cases`) each node sees only its own pods changed. A policy that counts over
zones still needs only one pass over arrays: the sums of the unchanged cluster, and the change on each node.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Around:
    """Weights of pods: in the unchanged cluster, and the change in the case of each node."""

    everywhere: Ints
    """The weight on each node of the unchanged cluster."""
    change: Ints | None = None
    """The change on each node of the table, in that node's own case; ``None`` if nothing changes."""

    def here(self, totals: Ints, inside: NDArray[np.bool_]) -> Ints:
        """The totals that each node of the table sees in its own case; ``totals`` are unchanged.

        ``inside`` says which nodes' own pods are part of their total.
        """
        return totals if self.change is None else totals + np.where(inside, self.change, 0)
