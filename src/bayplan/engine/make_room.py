"""Finds the pods to evict so that a pod fits: kube-scheduler's DefaultPreemption, on a snapshot.

On each node that evictions could help, all pods of lower priority are removed, except those that a policy
protects. Then as many as possible are reprieved: pods whose eviction breaks a budget before the others, and
among them the most important first. The best node is the one with the cheapest victims, first by the
policies' prices, then by kube-scheduler's rules.
"""

import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Annotated

import msgspec
import numpy as np

from bayplan.authoring.args import Args
from bayplan.authoring.registry import Policy
from bayplan.engine.crowd import LOWEST_PRIORITY, Crowd, started
from bayplan.engine.cycle import Question, interested
from bayplan.engine.decision import Decision
from bayplan.engine.guard import Attempt, Failure
from bayplan.engine.trials import Texts, Trials
from bayplan.engine.victims import Objection, Price, Witness, cheapest
from bayplan.kube.pod import NO_STATUS, Pod
from bayplan.snapshot.cluster import Snapshot

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
VICTIMS_LEAVE = "preemption: not eligible due to a terminating pod on the nominated node."
# kube-scheduler adds this to every priority, so that more pods never cost less than fewer.
_ABOVE_ALL = 2**31


class DefaultPreemptionArgs(Args):
    """Settings of kube-scheduler's plugin DefaultPreemption: how many candidates it looks for."""

    min_candidate_nodes_percentage: Annotated[int, msgspec.Meta(ge=0, le=100)] = 10
    """Of the nodes that evictions could help."""
    min_candidate_nodes_absolute: Annotated[int, msgspec.Meta(ge=0)] = 100
    """At least so many."""

    def __post_init__(self) -> None:
        if not self.min_candidate_nodes_percentage and not self.min_candidate_nodes_absolute:
            raise ValueError("`minCandidateNodesPercentage` and `minCandidateNodesAbsolute` are both 0")

    def enough(self, nodes: int) -> int:
        """How many candidates to look for if so many nodes could be one."""
        share = nodes * self.min_candidate_nodes_percentage // 100
        return min(max(share, self.min_candidate_nodes_absolute), nodes)


DEFAULT_PREEMPTION = DefaultPreemptionArgs()


@dataclass(frozen=True)
class Eviction:
    """A node and the pods to evict from it."""

    node: str
    victims: tuple[Pod, ...]
    """The most important first."""
    violations: int
    """How many of the evictions break a PodDisruptionBudget."""


@dataclass(frozen=True)
class Room:
    """The evictions that would make room for a pod, or why there are none."""

    evictions: tuple[Eviction, ...]
    message: str
    """Why there are none, in the words that kube-scheduler appends to its event; else ``""``."""
    now: datetime
    prices: Mapping[str, Sequence[Price]] = field(default_factory=dict)
    """The price of each node's evictions, by hook."""
    failures: tuple[Failure, ...] = ()
    """Failures of hooks that look at victims."""
    waits: bool = False
    """Whether victims are already leaving for the pod."""

    @cached_property
    def best(self) -> tuple[Eviction, ...]:
        """The cheapest evictions, all equally good."""
        nodes, _ = cheapest({eviction.node: eviction.violations for eviction in self.evictions}, self.prices)
        kept = frozenset(nodes)
        left = [eviction for eviction in self.evictions if eviction.node in kept]
        costs = [_cost(eviction, self.now) for eviction in left]
        least = min(costs, default=())
        return tuple(e for e, cost in zip(left, costs, strict=True) if cost == least)


def make_room(
    policies: Sequence[Policy],
    cluster: Snapshot,
    refused: Decision,
    *,
    now: datetime,
    candidates: int | None = None,
    settings: DefaultPreemptionArgs = DEFAULT_PREEMPTION,
    attempt: Attempt | None = None,
    kept: str = "",
    told: Collection[str] = (),
) -> Room:
    """Find the evictions that would let a pod in; ``refused`` is the decision in which no node passed.

    In a large cluster not all nodes are tried: the search stops at ``candidates`` evictions of which one
    breaks no budget. ``None`` is kube-scheduler's number by these ``settings``: a tenth of the nodes, at
    least 100. ``kept`` is the pod's nominated node, if its status does not have it yet; ``told`` are the UIDs
    of the pods that were evicted from it.
    """
    pod = refused.pod
    if not len(cluster.nodes):
        # kube-scheduler gives up earlier, without a message about preemption.
        return Room((), "", now)
    if pod.preemption_policy == "Never":
        return Room((), "preemption: not eligible due to preemptionPolicy=Never.", now)
    hopeful = _hopeful(refused)
    promised = kept or (pod.status or NO_STATUS).nominated_node_name or ""
    if promised in hopeful and _leaving(pod, cluster.pods_on(promised), told):
        return Room((), VICTIMS_LEAVE, now, waits=True)
    wanted = max(settings.enough(len(hopeful)) if candidates is None else candidates, 1)
    search = _Search(policies, Question(pod, cluster.nodes, cluster, now), attempt)
    found: dict[str, Eviction | Texts] = {}
    evictions: list[Eviction] = []
    helpable = _with_lower(_rotated(hopeful, pod), cluster, pod)
    for some in _batches(wanted, helpable):
        found |= search.on(some)
        evictions = [said for said in found.values() if isinstance(said, Eviction)]
        if len(evictions) >= wanted and not all(eviction.violations for eviction in evictions):
            break
    message = ""
    if not evictions:
        reasons = [reason for said in found.values() if isinstance(said, tuple) for reason in said]
        reasons += [NO_VICTIMS] * (len(hopeful) - len(found))
        message = f"preemption: {_none(len(cluster.nodes), reasons, len(cluster.nodes) - len(hopeful))}"
    ordered = tuple(sorted(evictions, key=lambda one: cluster.rows[one.node]))
    return Room(ordered, message, now, search.prices, tuple(search.failures))


def _leaving(pod: Pod, there: Sequence[Pod], told: Collection[str]) -> bool:
    """Whether a pod on the node was evicted for this pod.

    As in kube-scheduler from 1.27 on: a pod that terminates for another reason does not count, since its
    room may not be enough.
    """
    return any(each.uid in told or (each.preempted and each.priority < pod.priority) for each in there)


def _rotated(nodes: list[str], pod: Pod) -> list[str]:
    """The nodes, rotated by a hash of the pod: different pods try different nodes, a pod always the same."""
    start = zlib.crc32(pod.uid.encode()) % len(nodes) if nodes else 0
    return nodes[start:] + nodes[:start]


def _with_lower(nodes: list[str], cluster: Snapshot, pod: Pod) -> list[str]:
    """The nodes that have pods of lower priority."""
    lower = cluster.nodes[LOWEST_PRIORITY][cluster.find(nodes)] < pod.priority
    return [node for node, has in zip(nodes, lower.tolist(), strict=True) if has]


def _batches(size: int, nodes: list[str]) -> Iterator[list[str]]:
    return (nodes[start : start + size] for start in range(0, len(nodes), size))


def _hopeful(refused: Decision) -> list[str]:
    """The nodes that were refused for a reason that an eviction can change."""
    names = refused.nodes.names
    rows = [rows for _, reason, rows in refused.groups() if reason.preemptible and not reason.of_pod]
    return [names[row] for row in np.sort(np.concatenate(rows)).tolist()] if rows else []


def _none(count: int, reasons: list[str], others: int) -> str:
    counted = Counter(reasons)
    if others:
        counted[NOT_HELPFUL] += others
    told = ", ".join(sorted(f"{number} {text}" for text, number in counted.items()))
    return f"0/{count} nodes are available: {told}."


class _Search:
    """Tries evictions for one pod."""

    def __init__(self, policies: Sequence[Policy], question: Question, attempt: Attempt | None) -> None:
        attempt = attempt or Attempt()
        self._trials = Trials(policies, question, attempt)
        self._witness = Witness(interested(policies, question.pod), question, attempt)
        self._pod = question.pod
        self._cluster = question.cluster
        self._now = question.now
        self.prices: dict[str, Sequence[Price]] = {}

    @property
    def failures(self) -> list[Failure]:
        """Failures of hooks that look at victims."""
        return self._witness.failures

    def on(self, nodes: Sequence[str]) -> dict[str, Eviction | Texts]:
        """For each node the eviction to make there, or the reasons why none would help."""
        found: dict[str, Eviction | Texts] = {}
        crowds: dict[str, Crowd] = {}
        kept: dict[str, Texts] = {}
        for node in nodes:
            crowds[node], kept[node] = self._crowd(node)
        refusals = self._trials.refusals({node: crowd.gone for node, crowd in crowds.items() if crowd.gone})
        helped = {node: crowds[node] for node, refusal in refusals.items() if not refusal}
        self._reprieve(helped)
        for node, crowd in crowds.items():
            if refusals.get(node) or not crowd.victims:
                found[node] = (*refusals.get(node, ()), *kept[node]) or (NO_VICTIMS,)
            else:
                found[node] = self._priced(Eviction(node, crowd.victims, crowd.violations))
        return found

    def _crowd(self, node: str) -> tuple[Crowd, Texts]:
        """The pods that may be evicted from a node, and the objections for those that may not."""
        lower = [each for each in self._cluster.pods_on(node) if each.priority < self._pod.priority]
        kept: dict[str, None] = {}
        if self._witness.guards:
            objections = [(pod, self._witness.protects([pod])) for pod in lower]
            lower = [pod for pod, objection in objections if objection is None]
            kept = dict.fromkeys(objection.of_node for _, objection in objections if objection)
        return Crowd(lower, self._cluster.objects.budgets, self._now), tuple(kept)

    def _reprieve(self, crowds: Mapping[str, Crowd]) -> None:
        for turn in range(max((len(crowd.order) for crowd in crowds.values()), default=0)):
            back = {
                node: crowd.gone - {crowd.order[turn].uid}
                for node, crowd in crowds.items()
                if turn < len(crowd.order)
            }
            fitting = self._trials.fitting(back)
            for node in back:
                crowds[node].tried(turn, fits=node in fitting)

    def _priced(self, eviction: Eviction) -> Eviction | Texts:
        """The eviction with its prices noted, or the text of a policy that objects to it."""
        if not self._witness.pricers:
            return eviction
        said = self._witness.prices(eviction.victims, eviction.node)
        if isinstance(said, Objection):
            return (said.of_node,)
        self.prices[eviction.node] = said
        return eviction


def _cost(eviction: Eviction, now: datetime) -> tuple[float, ...]:
    """Sort key: broken budgets, highest priority, sum of priorities, number of victims, youngest start."""
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
