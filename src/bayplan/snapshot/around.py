"""What pods weigh on the nodes of a cluster, as each of some nodes sees it.

Where every node is a case of its own (`Snapshot.cases`), a node sees its own pods changed and all others as
they are. A rule that counts over zones is then still one pass over arrays: the sums of the cluster as it is,
and what each node alone would change about them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Around:
    """Weights of pods: of the cluster, and how much of them is another in the case of each node."""

    everywhere: Ints
    """One for each node of the cluster, as it is."""
    change: Ints | None = None
    """One for each node that is asked about: how much more it would be there; ``None`` where nothing is."""

    def here(self, totals: Ints, inside: NDArray[np.bool_]) -> Ints:
        """Totals for each node that is asked about, of its domain or of all, in the case of that node.

        ``inside`` are the nodes whose own pods count for them.
        """
        return totals if self.change is None else totals + np.where(inside, self.change, 0)
