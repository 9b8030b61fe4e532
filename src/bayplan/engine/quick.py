"""The fast path for a pod like the one before: a few nodes changed, and only their scores differ.

All other outcomes are reused as they are. If anything else differs, the fast path gives up, and the pod is
judged by a full cycle.
"""

import math
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bayplan.authoring import lift
from bayplan.authoring.registry import Hook
from bayplan.engine.again import patched, rescored
from bayplan.engine.combine import combine
from bayplan.engine.decision import NOBODY, Decision, Outcome
from bayplan.engine.guard import CURRENT_POD, Attempt, Failure, guarded
from bayplan.engine.memory import Recalled
from bayplan.snapshot.marks import Rows
from bayplan.snapshot.table import NodeTable

T = TypeVar("T")


def quickly(recalled: Recalled, attempt: Attempt, now: datetime) -> tuple[Decision, Decision] | None:
    """The filter's and the scores' decision; ``None`` if the pod needs a full cycle."""
    if recalled.cluster.expected or not recalled.said.frame.holds(recalled.pod, recalled.cluster):
        return None
    quick = _Quick(recalled, attempt, now)
    token = CURRENT_POD.set(recalled.pod.key)
    try:
        return quick.decisions()
    finally:
        CURRENT_POD.reset(token)


class _Quick:
    """One run of the fast path."""

    def __init__(self, recalled: Recalled, attempt: Attempt, now: datetime) -> None:
        self._pod, self._cluster = recalled.pod, recalled.cluster
        self._said, self._frame = recalled.said, recalled.said.frame
        self._changed = recalled.changed
        self._attempt = attempt
        self._now = now
        self._started = time.perf_counter()

    def decisions(self) -> tuple[Decision, Decision] | None:
        frame, nodes = self._frame, self._cluster.same_nodes
        changed = {
            "pod": self._pod,
            "nodes": self._cluster.look(self._changed),
            "cluster": self._cluster,
            "now": self._now,
            "prepared": None,
        }
        if self._changed.size and not self._all_pass(changed):
            return None
        # Refused nodes stay refused: none of them changed.
        left, rows = frame.left, self._changed
        table = nodes
        if left is not None:
            table, rows = nodes.take(left), left.searchsorted(rows)
        scored = self._scored(changed, rows)
        if scored is None:
            return None
        filtered = self._decision(nodes, frame.filtered, frame.refused_by, None)
        return filtered, self._decision(table, scored[0], frame.nobody, scored[1])

    def _all_pass(self, changed: dict[str, Any]) -> bool:
        """Whether every changed node passed before and passes now."""
        if (self._frame.refused_by[self._changed] != NOBODY).any():
            return False
        for hook in self._frame.filters:
            verdict, failure = self._ask(hook, changed, lift.verdict)
            if failure or verdict is None or verdict.codes.any():
                return False
        return True

    def _scored(
        self, changed: dict[str, Any], rows: Rows
    ) -> tuple[tuple[Outcome, ...], NDArray[np.float64]] | None:
        """The outcomes of the score hooks, and the total; ``rows``: the changed nodes in the scored table."""
        said = self._said
        assert said.scored is not None, "a simple case has scores"
        assert said.total is not None, "a simple case has scores"
        if not rows.size:
            return said.scored, said.total
        outcomes = []
        stretched = False
        for outcome in said.scored:
            if outcome.hook.spec.reads != "pods":
                outcomes.append(outcome)
                continue
            fresh, failure = self._ask(outcome.hook, changed, lift.scores)
            if failure or (fresh is None) != (outcome.score is None):
                return None
            if fresh is None or outcome.score is None:
                outcomes.append(outcome)
            elif fresh.detail or outcome.score.detail or math.isnan(fresh.scores.sum()):
                return None
            else:
                outcomes.append(rescored(outcome, rows, fresh))
                # Scores without a range are stretched over all nodes, so every node's score may change.
                stretched = stretched or outcome.hook.spec.range is None
        if stretched:
            return tuple(outcomes), _combined(outcomes, slice(None), len(said.total))
        return tuple(outcomes), patched(said.total, rows, _combined(outcomes, rows, len(rows)))

    def _ask(
        self, hook: Hook, available: dict[str, Any], read: Callable[[Hook, dict[str, Any]], T]
    ) -> tuple[T | None, Failure | None]:
        said, failure, _ = guarded(hook, self._attempt, lambda: read(hook, available))
        return said, failure

    def _decision(
        self,
        nodes: NodeTable,
        outcomes: tuple[Outcome, ...],
        refused_by: NDArray[np.int16],
        total: NDArray[np.float64] | None,
    ) -> Decision:
        return Decision(
            pod=self._pod,
            nodes=nodes,
            outcomes=outcomes,
            refused_by=refused_by,
            total=total,
            seconds=time.perf_counter() - self._started,
        )


def _combined(outcomes: Sequence[Outcome], rows: Rows | slice, count: int) -> NDArray[np.float64]:
    heard = [
        (outcome.normalised[rows], outcome.weight)
        for outcome in outcomes
        if outcome.normalised is not None and not outcome.shadow
    ]
    return combine([values for values, _ in heard], [weight for _, weight in heard], count)
