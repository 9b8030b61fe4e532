"""A gang as it stands at one moment: who waits, who has a place, what they ask for together."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from bayplan.authoring.gang import Gang
from bayplan.engine.gang import Plan
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot

GangKey = tuple[str, str]
"""Namespace and name of a gang."""

T = TypeVar("T")


@dataclass(frozen=True)
class Company(Generic[T]):
    """The members of a gang."""

    key: GangKey
    gang: Gang
    waiting: tuple[T, ...]
    """Those that could be judged now, in the order in which they are."""
    placed: tuple[Pod, ...]
    """Those that have a node, or are assumed on one, and stay."""
    discord: str = ""
    """Where members say different things of their gang."""

    @property
    def title(self) -> str:
        """``gang namespace/name``."""
        return f"gang {'/'.join(self.key)}"

    @property
    def complete(self) -> bool:
        """Whether as many are there as are placed together."""
        return len(self.waiting) + len(self.placed) >= self.gang.size

    @property
    def needed(self) -> int:
        """How many are to be placed together now; 0 where the gang stands, and others may join it."""
        return max(0, self.gang.size - len(self.placed))

    def counted(self) -> str:
        """How many are there."""
        there = len(self.waiting) + len(self.placed)
        have = "has its node" if len(self.placed) == 1 else "have their nodes"
        having = f", {len(self.placed)} of them {have}" if self.placed else ""
        return f"{self.title}: {there} of {self.gang.size} members are there{having}"

    def pinned(self, cluster: Snapshot) -> str:
        """The rack or zone that most of those with a node are in; ``""`` where none is."""
        label = self.gang.domain
        if label is None:
            return ""
        texts = cluster.nodes[label]
        rows = [cluster.rows[pod.node_name] for pod in self.placed if pod.node_name in cluster.rows]
        known = Counter(text for row in rows if (text := texts[row]) is not None)
        return min(known, key=lambda text: (-known[text], text), default="")

    def refusal(self, plan: Plan) -> tuple[str, str]:
        """What the member is told that does not fit, and what all others are."""
        misfit = plan.misfit
        assert misfit is not None, "somebody did not fit"
        label = self.gang.domain
        where = f" in {label.key} {plan.domain}" if label is not None and plan.domain else ""
        if where and plan.domains > 1:
            where += f", the best of {plan.domains}"
        others = f"{self.title}: member {misfit.pod.name} does not fit{where}: {misfit.sentence}"
        fit = f"{len(plan.seats)} other{'s' if len(plan.seats) != 1 else ''} would fit{where}"
        return f"{misfit.sentence} {self.title}: {fit}. A gang evicts nobody.", others


def discord(said: Sequence[tuple[Pod, Gang]]) -> str:
    """Where two members do not mean the same gang: nobody could say how many to wait for."""
    one, ours = said[0]
    for other, theirs in said[1:]:
        if theirs != ours:
            return (
                f"members do not agree: {one.name} says {_settings(ours)}, {other.name} {_settings(theirs)}"
            )
        if other.scheduler_name != one.scheduler_name:
            return f"{one.name} asks for {one.scheduler_name}, {other.name} for {other.scheduler_name}"
    return ""


def _settings(gang: Gang) -> str:
    label = gang.domain
    within = f" within {label.key}" if label is not None else ""
    return f"{gang.size} members{within} in {gang.timeout_seconds:g} s"
