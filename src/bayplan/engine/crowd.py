"""The pods of one node that may be evicted, in the order in which kube-scheduler reprieves them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayplan.kube.pod import Pod
from bayplan.kube.workloads import PodDisruptionBudget
from bayplan.snapshot.columns import PodColumn

_NO_PODS = np.iinfo(np.int64).max


@dataclass(frozen=True)
class _LowestPriority(PodColumn):
    """The lowest priority of the pods on each node, kept from search to search.

    Where it is not lower than that of a waiting pod, no eviction helps. If all pods have the same priority,
    that is everywhere, and thousands of pods may wait.
    """

    @property
    def title(self) -> str:
        return "LOWEST_PRIORITY"

    @property
    def meaning(self) -> str:
        return "the lowest priority of the pods on the node"

    def read_pods(self, pods: Sequence[Iterable[Pod]]) -> NDArray[Any]:
        lowest = [min((pod.priority for pod in there), default=_NO_PODS) for there in pods]
        return np.array(lowest, dtype=np.int64)


LOWEST_PRIORITY = _LowestPriority()


class Crowd:
    """The pods that may be evicted from one node, and which of them are evicted so far."""

    def __init__(self, pods: Sequence[Pod], budgets: Sequence[PodDisruptionBudget], now: datetime) -> None:
        self._pods = sorted(pods, key=lambda pod: (-pod.priority, started(pod, now)))
        self._broken, others = _split(self._pods, budgets)
        self.order = [*self._broken, *others]
        """The pods in the order of reprieve: those whose eviction breaks a budget first."""
        self.gone = {pod.uid for pod in pods}
        """UIDs of the pods that are evicted."""
        self.violations = 0
        """How many evicted pods break a budget."""

    def tried(self, turn: int, *, fits: bool) -> None:
        """Reprieve the pod whose turn it is if the incoming pod still fits, else count its broken budget."""
        if fits:
            self.gone.discard(self.order[turn].uid)
        elif turn < len(self._broken):
            self.violations += 1

    @property
    def victims(self) -> tuple[Pod, ...]:
        """The evicted pods, the most important first."""
        return tuple(pod for pod in self._pods if pod.uid in self.gone)


def started(pod: Pod, now: datetime) -> datetime:
    """When the pod began to run; now, for one that has not."""
    text = pod.start_time
    return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else now


def _split(pods: list[Pod], budgets: Sequence[PodDisruptionBudget]) -> tuple[list[Pod], list[Pod]]:
    """The pods whose eviction breaks a budget, and the others; earlier pods use a budget up first."""
    left = [budget.status.disruptions_allowed for budget in budgets]
    broken: list[Pod] = []
    others: list[Pod] = []
    for pod in pods:
        breaks = False
        for number, budget in enumerate(budgets):
            if _covers(budget, pod) and pod.name not in (budget.status.disrupted_pods or {}):
                left[number] -= 1
                breaks |= left[number] < 0
        (broken if breaks else others).append(pod)
    return broken, others


def _covers(budget: PodDisruptionBudget, pod: Pod) -> bool:
    selector = budget.spec.selector
    # In the API an empty selector matches every pod; kube-scheduler's preemption treats it as matching none.
    if selector is None or not (selector.match_labels or selector.match_expressions) or not pod.labels:
        return False
    return budget.namespace == pod.namespace and selector.matches(pod.labels)
