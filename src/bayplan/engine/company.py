"""A gang at one moment: the members that wait, those with a node, and whether the gang is complete."""

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
    """The members that could be judged now, in the order in which they are judged."""
    placed: tuple[Pod, ...]
    """The members that have a node, or are assumed on one, and are not terminating."""
    discord: str = ""
    """How the members' settings for the gang differ; ``""`` if they agree."""

    @property
    def title(self) -> str:
        """``gang namespace/name``."""
        return f"gang {'/'.join(self.key)}"

    @property
    def complete(self) -> bool:
        """Whether there are as many members as the gang's size."""
        return len(self.waiting) + len(self.placed) >= self.gang.size

    @property
    def needed(self) -> int:
        """How many members must be placed together now; 0 if the gang is placed and others may join."""
        return max(0, self.gang.size - len(self.placed))

    def counted(self) -> str:
        """A text with how many members there are."""
        there = len(self.waiting) + len(self.placed)
        have = "has its node" if len(self.placed) == 1 else "have their nodes"
        having = f", {len(self.placed)} of them {have}" if self.placed else ""
        return f"{self.title}: {there} of {self.gang.size} members are there{having}"

    def pinned(self, cluster: Snapshot) -> str:
        """The domain that most placed members are in; ``""`` if none is."""
        label = self.gang.domain
        if label is None:
            return ""
        texts = cluster.nodes[label]
        rows = [cluster.rows[pod.node_name] for pod in self.placed if pod.node_name in cluster.rows]
        known = Counter(text for row in rows if (text := texts[row]) is not None)
        return min(known, key=lambda text: (-known[text], text), default="")

    def refusal(self, plan: Plan) -> tuple[str, str]:
        """The message for the member that does not fit, and the message for all others."""
        misfit = plan.misfit
        assert misfit is not None, "a member did not fit"
        label = self.gang.domain
        where = f" in {label.key} {plan.domain}" if label is not None and plan.domain else ""
        if where and plan.domains > 1:
            where += f", the best of {plan.domains}"
        others = f"{self.title}: member {misfit.pod.name} does not fit{where}: {misfit.sentence}"
        if self.needed:
            fit = f"{len(plan.seats)} other{'s' if len(plan.seats) != 1 else ''} would fit{where}"
        else:
            fit = f"its {self.gang.size} members have their nodes{where}"
        return f"{misfit.sentence} {self.title}: {fit}. A gang evicts nobody.", others


def discord(said: Sequence[tuple[Pod, Gang]]) -> str:
    """How two members' settings for the gang differ; ``""`` if all agree."""
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
