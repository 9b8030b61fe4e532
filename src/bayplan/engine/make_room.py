"""Which pods would be evicted so that a pod fits: kube-scheduler's own rules, on a snapshot.

On each node that evictions could help, all pods of lower priority are taken away. Then as many as possible
are let back: the most important first, and those whose budget would be broken before the others. Of the nodes
left that one is best whose victims matter least.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import numpy as np

from bayplan.authoring.registry import Policy
from bayplan.engine.cycle import Question, filter_nodes
from bayplan.engine.decision import Decision
from bayplan.engine.unschedulable import about_pod
from bayplan.kube.pod import Pod
from bayplan.kube.workloads import PodDisruptionBudget
from bayplan.snapshot.cluster import Snapshot

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
# kube-scheduler adds it to every priority, so that more pods never cost less than fewer.
_ABOVE_ALL = 2**31


@dataclass(frozen=True)
class Eviction:
    """A node that these pods would have to leave."""

    node: str
    victims: tuple[Pod, ...]
    """The most important first."""
    violations: int
    """How many of them leave against a PodDisruptionBudget."""


@dataclass(frozen=True)
class Room:
    """Where room could be made for a pod."""

    evictions: tuple[Eviction, ...]
    message: str
    """Why there is none, in the words that kube-scheduler appends to its event; ``""`` where there is."""
    now: datetime

    @cached_property
    def best(self) -> tuple[Eviction, ...]:
        """Those whose victims matter least: any of them is as good as the others."""
        costs = [_cost(eviction, self.now) for eviction in self.evictions]
        return tuple(e for e, cost in zip(self.evictions, costs, strict=True) if cost == min(costs))


def make_room(policies: Sequence[Policy], cluster: Snapshot, refused: Decision, *, now: datetime) -> Room:
    """The evictions that would let the pod of a refusal in; ``refused`` is that refusal, by every node."""
    pod = refused.pod
    if pod.preemption_policy == "Never":
        return Room((), "preemption: not eligible due to preemptionPolicy=Never.", now)
    search = _Search(policies, pod, cluster, now)
    whole = about_pod(refused)
    hopeful = _hopeful(refused) if whole is None or whole.preemptible else ()
    found = [(node, search.on(node)) for node in hopeful]
    evictions = tuple(said for _, said in found if isinstance(said, Eviction))
    if evictions:
        return Room(evictions, "", now)
    reasons = [reason for _, said in found if isinstance(said, tuple) for reason in said]
    others = len(cluster.nodes) - len(found)
    return Room((), f"preemption: {_none(len(cluster.nodes), reasons, others)}", now)


def _hopeful(refused: Decision) -> Iterator[str]:
    """The nodes that were refused for something that an eviction can change."""
    names = refused.nodes.names
    for _, reason, rows in refused.groups():
        if reason.preemptible:
            yield from (names[row] for row in rows.tolist())


def _none(count: int, reasons: list[str], others: int) -> str:
    counted = {text: reasons.count(text) for text in reasons}
    if others:
        counted[NOT_HELPFUL] = counted.get(NOT_HELPFUL, 0) + others
    told = ", ".join(sorted(f"{number} {text}" for text, number in counted.items()))
    return f"0/{count} nodes are available: {told}."


class _Search:
    """Tries evictions for one pod."""

    def __init__(self, policies: Sequence[Policy], pod: Pod, cluster: Snapshot, now: datetime) -> None:
        self._policies = policies
        self._pod = pod
        self._cluster = cluster
        self._now = now

    def on(self, node: str) -> Eviction | tuple[str, ...]:
        """What must leave one node, or the reasons why that would not help."""
        lower = [each for each in self._cluster.pods_on(node) if each.priority < self._pod.priority]
        if not lower:
            return (NO_VICTIMS,)
        refusal = self._without(lower, node)
        if refusal:
            return refusal
        lower.sort(key=lambda each: (-each.priority, started(each, self._now)))
        broken, others = _split(lower, self._cluster.objects.budgets)
        gone = list(lower)
        violations = 0
        for each in (*broken, *others):
            back = [pod for pod in gone if pod is not each]
            if not self._without(back, node):
                gone = back
            elif each in broken:
                violations += 1
        return Eviction(node, tuple(gone), violations) if gone else (NO_VICTIMS,)

    def _without(self, gone: Sequence[Pod], node: str) -> tuple[str, ...]:
        """Why the pod would still be refused on the node once these are gone; nothing where it fits."""
        cluster = self._cluster.without_on({node: {pod.uid for pod in gone}})
        row = cluster.nodes.take(np.array([cluster.rows[node]], dtype=np.intp), [node])
        decision = filter_nodes(self._policies, Question(self._pod, row, cluster, self._now))
        if decision.error:
            return (decision.error,)
        refusal = decision.refusal(0)
        return (refusal.reason.text, *refusal.reason.also) if refusal else ()


def _split(pods: list[Pod], budgets: Sequence[PodDisruptionBudget]) -> tuple[list[Pod], list[Pod]]:
    """The pods whose eviction breaks a budget, and the others; earlier pods use a budget up first."""
    left = [budget.status.disruptions_allowed for budget in budgets]
    broken: list[Pod] = []
    for pod in pods:
        breaks = False
        for number, budget in enumerate(budgets):
            if _covers(budget, pod) and pod.name not in (budget.status.disrupted_pods or {}):
                left[number] -= 1
                breaks |= left[number] < 0
        if breaks:
            broken.append(pod)
    return broken, [pod for pod in pods if pod not in broken]


def _covers(budget: PodDisruptionBudget, pod: Pod) -> bool:
    selector = budget.spec.selector
    # To Kubernetes a budget with an empty selector is one for every pod; to its scheduler it is for none.
    if selector is None or not (selector.match_labels or selector.match_expressions) or not pod.labels:
        return False
    return budget.namespace == pod.namespace and selector.matches(pod.labels)


def _cost(eviction: Eviction, now: datetime) -> tuple[float, ...]:
    """What counts, in order: broken budgets, the highest priority, their sum, their number, how young."""
    priorities = [pod.priority for pod in eviction.victims]
    highest = max(priorities)
    earliest = min(started(pod, now) for pod in eviction.victims if pod.priority == highest)
    return (
        eviction.violations,
        priorities[0],
        sum(priority + _ABOVE_ALL for priority in priorities),
        len(priorities),
        -earliest.timestamp(),
    )


def started(pod: Pod, now: datetime) -> datetime:
    """When the pod began to run; now, for one that has not."""
    text = pod.start_time
    return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else now
