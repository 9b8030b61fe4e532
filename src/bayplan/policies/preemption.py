"""Preemption: which pods are never evicted, which go first, and how many of a group must stay.

Protect  pods that a rule, or their own annotation, protects.
Victims  refuses evictions that leave too few of a group; of the rest the cheapest are kept.
Reads    annotations, priority, owner and age of the victims; the placed pods, where there are budgets.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal

import msgspec

import bayplan
from bayplan import Args, Pod, Snapshot, blocks
from bayplan.blocks import PodGroup, PolicyScope

AnnotationKey = Annotated[str, msgspec.Meta(max_length=317)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Cost = Literal["eviction-cost", "highest-priority", "priority-sum", "victims", "age"]

PodGroupKey = tuple[str | None, ...]

_WHOLE = re.compile(r"[+-]?[0-9]{1,10}")


class Budget(Args):
    """How many pods of a group may be missing at once, beside what PodDisruptionBudgets say."""

    pods: PodGroup = PodGroup()
    """The group."""
    min_running: Count | None = None
    """So many of the group must stay: on a node, and not terminating."""
    max_terminating: Count | None = None
    """Only so many of the group may be terminating at once."""

    def __post_init__(self) -> None:
        if self.min_running is None and self.max_terminating is None:
            raise ValueError("give `minRunning`, `maxTerminating` or both")


class PreemptionArgs(Args):
    """Settings of `Preemption`."""

    protect: tuple[PolicyScope, ...] = ()
    """Pods that are never evicted: those that one of these matches."""
    protect_annotation: AnnotationKey = "bayplan.dev/protected"
    """A pod is never evicted where this is ``true`` on it; empty for no such annotation."""
    cost: tuple[Cost, ...] = ("eviction-cost",)
    """What makes victims expensive; where the first is equal, the next one decides."""
    cost_annotation: AnnotationKey = "bayplan.dev/eviction-cost"
    """The whole number on a pod that ``eviction-cost`` adds up; 0 where a pod has none."""
    budgets: tuple[Budget, ...] = ()
    """How many pods of a group must stay."""

    def __post_init__(self) -> None:
        twice = next((cost for cost in self.cost if self.cost.count(cost) > 1), None)
        if twice is not None:
            raise ValueError(f"cost: {twice!r} is there twice")
        if "eviction-cost" in self.cost and not self.cost_annotation:
            raise ValueError("cost: `eviction-cost` needs a costAnnotation")


@bayplan.policy
class Preemption:
    """Which pods are never evicted, which go first, and how many of a group must stay."""

    def __init__(self, args: PreemptionArgs) -> None:
        self._args = args

    @bayplan.prepare
    def census(self, cluster: Snapshot) -> "_Census | None":
        """The census of pod groups; ``None`` without budgets."""
        return _Census(cluster) if self._args.budgets else None

    @bayplan.protect
    def protected(self, victim: Pod) -> bool | str:
        """Pods that a rule, or their own annotation, protects."""
        if any(scope.matches(victim) for scope in self._args.protect):
            return True
        key = self._args.protect_annotation
        if not key:
            return False
        text = victim.annotations.get(key)
        if text is None:
            near = blocks.mistyped(key, victim.annotations)
            return f"its annotation {near} is nearly {key}" if near else False
        # Any other value was probably meant to protect the pod: a typo must not get it evicted.
        return text == "true" or (text != "false" and f"its annotation {key} is neither true nor false")

    @bayplan.victims
    def budget(self, victims: Sequence[Pod], prepared: "_Census | None") -> str | None:
        """Enough of each group must stay."""
        if prepared is None:
            return None
        fresh = [victim for victim in victims if not victim.terminating]
        checks = (prepared.broken(budget, victim, fresh) for budget in self._args.budgets for victim in fresh)
        return next((text for text in checks if text), None)

    @bayplan.victims
    def cost(self, victims: Sequence[Pod], now: datetime) -> tuple[float, ...] | str | None:
        """What makes these victims expensive, the most important first."""
        costs: list[float] = []
        for kind in self._args.cost:
            if kind == "eviction-cost":
                written = [self._written(victim) for victim in victims]
                wrong = next((text for text in written if isinstance(text, str)), None)
                if wrong is not None:
                    return wrong
                costs.append(sum(number for number in written if not isinstance(number, str)))
            else:
                costs.append(_total(kind, victims, now))
        return tuple(costs) or None

    def _written(self, victim: Pod) -> int | str:
        """What the pod's annotation says; a text that says what is wrong with it."""
        key = self._args.cost_annotation
        text = victim.annotations.get(key)
        if text is None:
            near = blocks.mistyped(key, victim.annotations)
            return f"pod {victim.key}: its annotation {near} is nearly {key}" if near else 0
        if not _WHOLE.fullmatch(text):
            return f"pod {victim.key}: its annotation {key} is no whole number"
        return int(text)


class _Census:
    """The state of each group of pods, worked out once for all candidates."""

    def __init__(self, cluster: Snapshot) -> None:
        self._cluster = cluster
        self._leaving = [pod for pod in cluster.pods if pod.terminating and pod.node_name]
        self._known: dict[tuple[PodGroupKey, int], tuple[int, int]] = {}

    def broken(self, budget: Budget, victim: Pod, victims: Sequence[Pod]) -> str:
        """How evicting them would break the budget for the victim's group; ``""`` where it would not."""
        if not budget.pods.includes(victim):
            return ""
        group = _group(budget.pods, victim)
        running, terminating = self._standing(budget, victim, group)
        more = sum(_belongs(pod, budget.pods, group) for pod in victims)
        if budget.min_running is not None and running - more < budget.min_running:
            return f"fewer than {budget.min_running} pods of the group of {victim.key} would stay"
        if budget.max_terminating is not None and terminating + more > budget.max_terminating:
            return f"more than {budget.max_terminating} of the group of {victim.key} would be terminating"
        return ""

    def _standing(self, budget: Budget, victim: Pod, group: PodGroupKey) -> tuple[int, int]:
        """How many pods of the group stay as things are, and how many are on their way out."""
        key = (group, id(budget))
        if key not in self._known:
            placed = int(self._cluster.nodes.count(budget.pods.seen_from(victim)).sum())
            terminating = sum(_belongs(pod, budget.pods, group) for pod in self._leaving)
            self._known[key] = placed - terminating, terminating
        return self._known[key]


def _total(kind: Cost, victims: Sequence[Pod], now: datetime) -> float:
    if kind == "victims":
        return len(victims)
    if kind == "age":
        return sum(_age_seconds(victim, now) for victim in victims)
    priorities = [victim.priority for victim in victims]
    return max(priorities) if kind == "highest-priority" else sum(priorities)


def _age_seconds(pod: Pod, now: datetime) -> float:
    written = pod.metadata.creation_timestamp if pod.metadata else None
    return (now - datetime.fromisoformat(written)).total_seconds() if written else 0.0


def _group(pods: PodGroup, pod: Pod) -> PodGroupKey:
    """The key of the pod's group among the groups of one budget."""
    keys = (pods.same_label,) if isinstance(pods.same_label, str) else pods.same_label
    return (
        pod.namespace if pods.same_namespace else None,
        pod.owner.uid if pods.same_owner and pod.owner else None,
        *(pod.labels.get(key) for key in keys),
    )


def _belongs(pod: Pod, pods: PodGroup, group: PodGroupKey) -> bool:
    return pods.includes(pod) and _group(pods, pod) == group
