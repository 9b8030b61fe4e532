"""A gang as it stands at one moment: who waits, who has a place, what they ask for together."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bayplan.authoring.gang import Gang
from bayplan.engine.gang import Plan, member_order
from bayplan.kube.pod import Pod
from bayplan.runtimes.scheduler.queue import PodQueue, Waiting
from bayplan.runtimes.scheduler.roster import GangKey, Roster
from bayplan.snapshot.cluster import Snapshot
from bayplan.state.cache import Cache

READY = ("active", "backoff", "unschedulable", "gang")
"""Where a member is that could be judged now: not behind a gate, and not on its way to a node."""


@dataclass(frozen=True)
class Band:
    """The members of a gang."""

    key: GangKey
    gang: Gang
    waiting: tuple[Waiting, ...]
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


def muster(
    key: GangKey, roster: Roster, queue: PodQueue, cache: Cache, *, mine: Waiting | None = None
) -> Band | None:
    """The gang as it stands, ``mine`` being the one whose turn it is; ``None`` where nobody of it waits."""
    waiting: list[Waiting] = []
    placed: list[Pod] = []
    for member in roster.members(key):
        pod = _now(member, cache)
        if pod is None:
            continue
        if pod.node_name:
            placed.append(pod)
        elif (found := queue.find(pod.uid)) is not None and (found is mine or found.place in READY):
            waiting.append(found)
    if not waiting:
        return None
    waiting.sort(key=lambda one: member_order(one.pod))
    said = [(one.pod, _gang(roster, one.pod)) for one in waiting]
    return Band(key, said[0][1], tuple(waiting), tuple(placed), _discord(said))


def wants_node(member: Pod, cache: Cache) -> bool:
    """Whether the pod is still there, and nobody has given it a node."""
    pod = _now(member, cache)
    return pod is not None and not pod.node_name


def refusal(band: Band, plan: Plan) -> dict[str, str]:
    """What each member is told, by UID, when one of them does not fit."""
    misfit = plan.misfit
    assert misfit is not None
    label = band.gang.domain
    where = f" in {label.key} {plan.domain}" if label is not None and plan.domain else ""
    if where and plan.domains > 1:
        where += f", the best of {plan.domains}"
    others = f"{band.title}: member {misfit.pod.name} does not fit{where}: {misfit.sentence}"
    fit = f"{len(plan.seats)} other{'s' if len(plan.seats) != 1 else ''} would fit{where}"
    own = f"{misfit.sentence} {band.title}: {fit}. A gang evicts nobody."
    return {one.pod.uid: own if one.pod.uid == misfit.pod.uid else others for one in band.waiting}


def _now(member: Pod, cache: Cache) -> Pod | None:
    """The pod as it is now; ``None`` where it is gone, or about to go."""
    pod = cache.pod(member.key)
    return None if pod is None or pod.uid != member.uid or pod.terminating else pod


def _gang(roster: Roster, pod: Pod) -> Gang:
    said = roster.of(pod.uid)
    assert said is not None, "a member is known by what was said of it"
    assert said.gang is not None, "a member is known by its gang"
    return said.gang


def _discord(said: Sequence[tuple[Pod, Gang]]) -> str:
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
