"""Which pods would be evicted so that a pod fits: kube-scheduler's own rules, on a snapshot.

On each node that evictions could help, all pods of lower priority are taken away. Then as many as possible
are let back: the most important first, and those whose budget would be broken before the others. Of the nodes
left that one is best whose victims matter least.
"""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import numpy as np

from bayplan.authoring.registry import Policy
from bayplan.engine.decision import Decision
from bayplan.engine.trials import Texts, Trials
from bayplan.kube.pod import NO_STATUS, Pod
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


def make_room(
    policies: Sequence[Policy],
    cluster: Snapshot,
    refused: Decision,
    *,
    now: datetime,
    candidates: int | None = None,
) -> Room:
    """The evictions that would let the pod of a refusal in; ``refused`` is that refusal, by every node.

    In a large cluster not all nodes are tried: the search ends with so many ``candidates`` of which one
    breaks no budget; ``None`` is kube-scheduler's number, a tenth of the nodes and at least 100.
    """
    pod = refused.pod
    if not len(cluster.nodes):
        # kube-scheduler gives up before it comes to this.
        return Room((), "", now)
    if pod.preemption_policy == "Never":
        return Room((), "preemption: not eligible due to preemptionPolicy=Never.", now)
    hopeful = _hopeful(refused)
    if _waits(pod, cluster, hopeful):
        return Room((), "preemption: not eligible due to a terminating pod on the nominated node.", now)
    wanted = max(enough(len(hopeful)) if candidates is None else candidates, 1)
    search = _Search(policies, pod, cluster, now)
    found: dict[str, Eviction | Texts] = {}
    evictions: list[Eviction] = []
    for some in _by(wanted, _turned(hopeful, pod)):
        found |= search.on(some)
        evictions = [said for said in found.values() if isinstance(said, Eviction)]
        if len(evictions) >= wanted and not all(eviction.violations for eviction in evictions):
            break
    if evictions:
        return Room(tuple(sorted(evictions, key=lambda one: cluster.rows[one.node])), "", now)
    reasons = [reason for said in found.values() if isinstance(said, tuple) for reason in said]
    others = len(cluster.nodes) - len(found)
    return Room((), f"preemption: {_none(len(cluster.nodes), reasons, others)}", now)


def enough(nodes: int) -> int:
    """How many candidates kube-scheduler looks for where so many nodes could be one."""
    return min(max(nodes * 10 // 100, 100), nodes)


def _waits(pod: Pod, cluster: Snapshot, hopeful: Sequence[str]) -> bool:
    """Whether somebody is leaving already, on the node that the pod waits for."""
    node = (pod.status or NO_STATUS).nominated_node_name or ""
    return node in hopeful and any(
        each.terminating and each.priority < pod.priority for each in cluster.pods_on(node)
    )


def _turned(nodes: list[str], pod: Pod) -> list[str]:
    """The nodes, beginning anywhere: not all pods are to look at the same few, but each at its own again."""
    start = zlib.crc32(pod.uid.encode()) % len(nodes) if nodes else 0
    return nodes[start:] + nodes[:start]


def _by(size: int, nodes: list[str]) -> Iterator[list[str]]:
    return (nodes[start : start + size] for start in range(0, len(nodes), size))


def _hopeful(refused: Decision) -> list[str]:
    """The nodes that were refused for something that an eviction can change."""
    names = refused.nodes.names
    rows = [rows for _, reason, rows in refused.groups() if reason.preemptible and not reason.of_pod]
    return [names[row] for row in np.sort(np.concatenate(rows)).tolist()] if rows else []


def _none(count: int, reasons: list[str], others: int) -> str:
    counted = {text: reasons.count(text) for text in reasons}
    if others:
        counted[NOT_HELPFUL] = counted.get(NOT_HELPFUL, 0) + others
    told = ", ".join(sorted(f"{number} {text}" for text, number in counted.items()))
    return f"0/{count} nodes are available: {told}."


class _Search:
    """Tries evictions for one pod."""

    def __init__(self, policies: Sequence[Policy], pod: Pod, cluster: Snapshot, now: datetime) -> None:
        self._trials = Trials(policies, pod, cluster, now)
        self._pod = pod
        self._cluster = cluster
        self._now = now

    def on(self, nodes: Sequence[str]) -> dict[str, Eviction | Texts]:
        """What must leave each node, or the reasons why that would not help."""
        crowds = {node: self._crowd(node) for node in nodes}
        refusals = self._trials.refusals({node: crowd.gone for node, crowd in crowds.items() if crowd.gone})
        helped = {node: crowds[node] for node, refusal in refusals.items() if not refusal}
        for turn in range(max((len(crowd.order) for crowd in helped.values()), default=0)):
            back = {
                node: crowd.gone - {crowd.order[turn].uid}
                for node, crowd in helped.items()
                if turn < len(crowd.order)
            }
            fitting = self._trials.fitting(back)
            for node in back:
                helped[node].tried(turn, fits=node in fitting)
        return {
            node: refusals.get(node) or crowd.eviction(node) or (NO_VICTIMS,)
            for node, crowd in crowds.items()
        }

    def _crowd(self, node: str) -> "_Crowd":
        lower = [each for each in self._cluster.pods_on(node) if each.priority < self._pod.priority]
        lower.sort(key=lambda each: (-each.priority, started(each, self._now)))
        broken, others = _split(lower, self._cluster.objects.budgets)
        return _Crowd(lower, broken, [*broken, *others])


class _Crowd:
    """The pods of one node that may be evicted, and which of them are gone for now."""

    def __init__(self, pods: list[Pod], broken: list[Pod], order: list[Pod]) -> None:
        self._pods = pods
        self._broken = broken
        self.order = order
        """In which they are let back."""
        self.gone = {pod.uid for pod in pods}
        self._violations = 0

    def tried(self, turn: int, *, fits: bool) -> None:
        """Let the one whose turn it is back, or count what its leaving breaks."""
        if fits:
            self.gone.discard(self.order[turn].uid)
        elif turn < len(self._broken):
            self._violations += 1

    def eviction(self, node: str) -> Eviction | None:
        """Those who stay away, if any."""
        victims = tuple(pod for pod in self._pods if pod.uid in self.gone)
        return Eviction(node, victims, self._violations) if victims else None


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
