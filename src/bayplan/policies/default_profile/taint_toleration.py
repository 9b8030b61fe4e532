"""TaintToleration: a node's taints keep away the pods that do not tolerate them.

Filter   rejects nodes with a taint of effect NoSchedule or NoExecute that the pod does not tolerate.
Score    the fewer taints of effect PreferNoSchedule the pod does not tolerate, the better; 100 for none.
Reads    the taints of the nodes; the pod's tolerations.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bayplan
from bayplan import NodeTable, Pod, Reason, Strings, Toleration, Verdict
from bayplan.blocks import TAINTS

UNTOLERATED = Reason("node(s) had untolerated taint(s)", helped_by=frozenset({"nodes"}))

_HARD = ("NoSchedule", "NoExecute")
_SOFT = ("PreferNoSchedule",)
_BEST = 100


@bayplan.policy
class TaintToleration:
    """A node's taints keep away the pods that do not tolerate them."""

    @bayplan.filter(reads="node")
    def tolerated(self, pod: Pod, nodes: NodeTable) -> Verdict | None:
        """Refuse nodes with a taint that the pod does not tolerate."""
        taints: Strings = nodes[TAINTS]
        refused = _untolerated(taints.values, pod.tolerations, _HARD)
        return None if refused is None else UNTOLERATED.where(_of_nodes(taints, refused > 0))

    @bayplan.score(range=(0, 100), reads="nodes")
    def liked(self, pod: Pod, nodes: NodeTable) -> NDArray[np.int64] | int:
        """How few taints there are that the pod would rather not have, of the worst node's."""
        taints: Strings = nodes[TAINTS]
        disliked = _untolerated(taints.values, pod.tolerations, _SOFT)
        if disliked is None:
            return _BEST
        counts = _of_nodes(taints, disliked)
        worst = int(counts.max(initial=0))
        return _BEST - _BEST * counts // worst if worst else _BEST


def _of_nodes(taints: Strings, of_sets: NDArray[Any]) -> NDArray[Any]:
    """One value a node out of one a set of taints and, as the last, one for no taints."""
    # The code of a node without taints is -1, which wraps round to the last.
    return of_sets.take(taints.codes, mode="wrap")


# Nodes have few different sets of taints and pods few different tolerations; most pairs come again.
@lru_cache(maxsize=512)
def _untolerated(
    sets: tuple[str, ...], tolerations: tuple[Toleration, ...], effects: tuple[str, ...]
) -> NDArray[np.int64] | None:
    """How many taints of each set are not tolerated, and 0 for no taints; ``None`` where that is nowhere."""

    def untolerated(text: str) -> int:
        taints = (taint for taint in TAINTS.decoded(text) if taint.effect in effects)
        return sum(not any(each.tolerates(taint) for each in tolerations) for taint in taints)

    counts = [untolerated(text) for text in sets]
    return np.array([*counts, 0], dtype=np.int64) if any(counts) else None
