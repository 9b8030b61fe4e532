"""The two judges: kube-scheduler, asked by creating the pod, and Bayplan, asked in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime

import numpy as np

from bayplan.authoring.registry import Policy
from bayplan.engine.choose import Choice, choose
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot
from tests.controlplane.plane import ControlPlane
from tests.parity.answer import FAILED, GATED, PLACED, UNSCHEDULABLE, Answer, reasons
from tests.parity.outcomes import Outcome, Outcomes
from tests.parity.recorder import FeasibleNodes
from tests.parity.scheduler_log import FLAGS, ScheduledScores
from tests.parity.world import Json

_OUTCOMES = {"Unschedulable": UNSCHEDULABLE, "SchedulingGated": GATED}

GATES = ("--feature-gates=OpportunisticBatching=false",)
"""It answers for a pod out of what was found for an equal pod before: nothing is judged then."""


class KubeScheduler:
    """A real kube-scheduler with its default profile, whose judgement is written down."""

    def __init__(self, feasible: FeasibleNodes, scores: ScheduledScores, outcomes: Outcomes) -> None:
        self._feasible = feasible
        self._scores = scores
        self._outcomes = outcomes

    def answer(self, pod: str) -> Answer:
        """Wait for the outcome of a pod that was created, and say what was judged."""
        outcome = self._outcomes.wait(pod)
        feasible = self._feasible.take(pod)
        if outcome.node:
            best = frozenset({outcome.node})
            return Answer(PLACED, feasible, best=best, scores=self._scores.take(pod))
        return Answer(_kind_of(outcome), feasible, message=reasons(outcome.message))


@contextmanager
def kube_scheduler(plane: ControlPlane, profile: Json | None = None) -> Iterator[KubeScheduler]:
    """The scheduler, running inside the block; with another profile than the default one."""
    with ExitStack() as stack:
        feasible = stack.enter_context(FeasibleNodes())
        scheduler = plane.scheduler(
            extenders=[feasible.entry()],
            percentage_of_nodes_to_score=100,
            profiles=[profile] if profile else None,
            flags=[*FLAGS, *GATES],
        )
        stack.enter_context(scheduler)
        outcomes = stack.enter_context(Outcomes(plane))
        yield KubeScheduler(feasible, ScheduledScores(scheduler.child.log_file), outcomes)


def bayplan_answer(policies: Sequence[Policy], pod: Pod, cluster: Snapshot) -> Answer:
    """What the policies say about a pod."""
    choice = choose(policies, pod, cluster, now=datetime.now(UTC))
    if choice.filtered.error:
        return Answer(FAILED, message=choice.filtered.error)
    feasible = frozenset(choice.feasible)
    spoke = _refusers(choice)
    if not feasible:
        outcome = GATED if pod.spec and pod.spec.scheduling_gates else UNSCHEDULABLE
        return Answer(outcome, message=choice.message, spoke=spoke)
    if choice.scored is not None and choice.scored.error:
        return Answer(FAILED, feasible, message=choice.scored.error)
    scores = _points(choice)
    spoke |= {name for name, points in scores.items() if any(points.values())}
    return Answer(PLACED, feasible, best=frozenset(choice.best), scores=scores, spoke=spoke)


def _refusers(choice: Choice) -> frozenset[str]:
    return frozenset(
        outcome.hook.policy
        for outcome in choice.filtered.outcomes
        if outcome.verdict is not None and outcome.verdict.codes.any()
    )


def _points(choice: Choice) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    if choice.scored is None:
        return found
    names = choice.scored.nodes.names
    for outcome in choice.scored.outcomes:
        if outcome.normalised is None:
            continue
        points = np.nan_to_num(np.broadcast_to(outcome.normalised, len(names))) * outcome.weight
        whole = points.astype(int)
        assert (whole == points).all(), f"{outcome.hook.policy} gives parts of points: {points}"
        found[outcome.hook.policy] = dict(zip(names, whole.tolist(), strict=True))
    return found


def _kind_of(outcome: Outcome) -> str:
    return _OUTCOMES.get(outcome.reason, FAILED)
