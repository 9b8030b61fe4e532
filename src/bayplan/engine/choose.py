"""Chooses a node for one pod out of a whole cluster: filter, score, best nodes, and the refusal's message.

kube-scheduler asks an extender to filter and to score in two requests. The scheduler and the simulator do
both at once; only the nodes that passed are scored, as in kube-scheduler.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bayplan.authoring.registry import Policy
from bayplan.engine.cycle import Question, filter_and_score
from bayplan.engine.decision import Decision
from bayplan.engine.guard import Attempt
from bayplan.engine.memory import Memory
from bayplan.engine.quick import quickly
from bayplan.engine.unschedulable import unschedulable
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot


@dataclass(frozen=True)
class Choice:
    """The nodes that a pod may go to, and the best of them."""

    filtered: Decision
    scored: Decision | None
    """``None`` if fewer than two nodes are feasible, so that there is nothing to compare."""

    @property
    def feasible(self) -> list[str]:
        """Names of the nodes that passed every filter."""
        return [] if self.filtered.error else self.filtered.passed_names

    @property
    def found(self) -> bool:
        """Whether a node is feasible."""
        return not self.filtered.error and bool(self.filtered.passed.any())

    @cached_property
    def best(self) -> list[str]:
        """The nodes with the highest score, all equally good."""
        judged, rows = self._best
        return [judged.nodes.names[row] for row in rows.tolist()]

    def any_of_best(self, rng: random.Random) -> str:
        """A random one of the best nodes, without looking up the names of the others."""
        judged, rows = self._best
        return judged.nodes.name(int(rows[rng.randrange(len(rows))]))

    @cached_property
    def _best(self) -> tuple[Decision, NDArray[np.intp]]:
        if self.scored is None or self.scored.total is None:
            return self.filtered, np.flatnonzero(self.filtered.passed & self.found)
        total = self.scored.total
        return self.scored, np.flatnonzero(total == total.max())

    @property
    def message(self) -> str:
        """Why no node is feasible, in kube-scheduler's words; ``""`` if one is."""
        return "" if self.found else unschedulable(self.filtered)


def choose(
    policies: Sequence[Policy],
    pod: Pod,
    cluster: Snapshot,
    *,
    now: datetime,
    attempt: Attempt | None = None,
    memory: Memory | None = None,
) -> Choice:
    """Filter all nodes of the cluster, then score those that passed; a ``memory`` only makes it faster."""
    attempt = attempt or Attempt()
    recalled = memory.recall(pod, cluster) if memory is not None else None
    if memory is not None and recalled is not None:
        found = quickly(recalled, attempt, now)
        if found is not None:
            memory.keep(cluster, *found, like=recalled)
            return Choice(*found)
    question = Question(pod, cluster.nodes, cluster, now)
    return Choice(*filter_and_score(policies, question, attempt, memory=memory, recalled=recalled))
