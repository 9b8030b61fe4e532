"""Plans a gang as one unit: each member is judged in a cluster in which the members before it are placed.

A plan that leaves a member out is discarded. The largest members come first, since small ones fit more easily
around large ones than the other way round. There is no backtracking: a placed member is not moved.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from bayplan.authoring.gang import Gang
from bayplan.authoring.registry import Policy
from bayplan.engine.choose import Choice, choose
from bayplan.engine.commit import allocate, allocates
from bayplan.engine.cycle import Question, filter_and_score
from bayplan.engine.gang_domains import Domain, read_domains, worth_trying
from bayplan.engine.gang_record import nowhere, over_all
from bayplan.engine.guard import Attempt
from bayplan.engine.memory import Memory
from bayplan.engine.unschedulable import unschedulable
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.draft import Draft

Rows = NDArray[np.intp]
# How many nodes the kept decisions of a plan may have together; a node takes 100 to 300 bytes in each.
_KEPT_ROWS = 400_000
Look = Callable[[Snapshot, Pod], Snapshot]
"""Adds to a cluster the readings of sources that are queried for one member."""


@dataclass(frozen=True)
class Seat:
    """A member and the node for it."""

    pod: Pod
    choice: Choice | None
    """``None`` for the later members of a large gang: their decisions would take gigabytes together."""
    node: str
    annotations: Mapping[str, str] = field(default_factory=dict)
    """The annotations to bind it with."""


@dataclass(frozen=True)
class Misfit:
    """The first member that found no node."""

    pod: Pod
    choice: Choice
    sentence: str
    """Why, in kube-scheduler's words, over the nodes of the domain."""
    error: str = ""
    """Set if a policy failed, so that the cause is not a lack of nodes."""


@dataclass(frozen=True)
class Plan:
    """A node for every member of a gang, or the member that has none."""

    seats: tuple[Seat, ...]
    """The seats of all members; if they do not fit, of those before the misfit, in the best domain."""
    domain: str = ""
    """The rack or zone; ``""`` if the gang has no ``within``."""
    misfit: Misfit | None = None
    misfits: tuple[Misfit, ...] = ()
    """The misfit of every domain that was tried."""
    domains: int = 0
    """How many domains there are."""
    first: Choice | None = None
    """The choice for the first member over all domains, also those not tried; ``None`` if the gang fits."""

    @property
    def fits(self) -> bool:
        """Whether every member has a node."""
        return self.misfit is None


def member_order(pod: Pod) -> tuple[object, ...]:
    """Sort key of members: highest priority, then largest, then by name with numbers in numeric order."""
    name = tuple((int(part) if part.isdigit() else -1, part) for part in re.split(r"([0-9]+)", pod.name))
    return -pod.priority, -pod.cpu_milli, -pod.memory_bytes, name


def plan_gang(
    policies: Sequence[Policy],
    gang: Gang,
    pods: Sequence[Pod],
    cluster: Snapshot,
    *,
    attempt: Attempt,
    pinned: str = "",
    pick: Callable[[Sequence[str]], str] = lambda names: names[0],
    look: Look = lambda cluster, _: cluster,
) -> Plan:
    """Plan these pods, in their order.

    ``pinned`` is the domain that other members are in already; ``pick`` chooses one of the best nodes.
    """
    trying = _Trying(policies, cluster, attempt, pick, look)
    label = gang.domain
    if label is None:
        return trying.fill(pods, None)
    here = look(cluster, pods[0])
    first = choose(policies, pods[0], here, now=attempt.now, attempt=attempt)
    domains = read_domains(here, label, pods, first)
    if pinned:
        domains = [domain for domain in domains if domain.name == pinned]
    if first.filtered.error or not domains:
        missing = label.key + (f"={pinned}" if pinned else "")
        error = first.filtered.error
        choice = first if error else Choice(nowhere(pods[0], here, missing), None)
        misfit = Misfit(pods[0], choice, f"no node has the label {missing}.", error)
        return Plan((), misfit=misfit, misfits=(misfit,), first=first)
    best: Plan | None = None
    misfits: tuple[Misfit, ...] = ()
    for domain in worth_trying(domains, policies, len(pods)):
        plan = trying.fill(pods, domain)
        if plan.misfit is None:
            return replace(plan, domains=len(domains))
        misfits += (plan.misfit,)
        if best is None or len(plan.seats) > len(best.seats):
            best = plan
        if plan.misfit.error:
            break
    assert best is not None, "there is a domain, and one at least is tried"
    return replace(best, misfits=misfits, domains=len(domains), first=first)


class _Trying:
    """Tries to place a gang in one domain after another."""

    def __init__(
        self,
        policies: Sequence[Policy],
        cluster: Snapshot,
        attempt: Attempt,
        pick: Callable[[Sequence[str]], str],
        look: Look,
    ) -> None:
        self._policies = policies
        self._cluster = cluster
        self._attempt = attempt
        self._pick = pick
        self._look = look
        self._hands_out = allocates(policies)
        self._memory = Memory()

    def fill(self, pods: Sequence[Pod], domain: Domain | None) -> Plan:
        """Place one pod after another, in a domain or anywhere, until one does not fit."""
        # A copy of the cluster for each member would be a part of the next one: a gang of a thousand would
        # have a chain of a thousand.
        draft = Draft(self._cluster)
        seats: list[Seat] = []
        name = domain.name if domain is not None else ""
        for pod in pods:
            found = self._seat(pod, self._look(draft.snapshot, pod), domain)
            if isinstance(found, Misfit):
                return Plan(tuple(seats), name, found, (found,))
            kept = len(seats) * len(self._cluster.rows) < _KEPT_ROWS
            seats.append(found if kept else replace(found, choice=None))
            draft.place(pod, found.node, found.annotations)
        return Plan(tuple(seats), name)

    def _seat(self, pod: Pod, here: Snapshot, domain: Domain | None) -> Seat | Misfit:
        if domain is None:
            narrow = wide = self._choose(pod, here)
        else:
            question = Question(pod, here.nodes.take(domain.rows), here, self._attempt.now)
            narrow = Choice(*filter_and_score(self._policies, question, self._attempt))
            wide = replace(narrow, filtered=over_all(narrow.filtered, here, domain))
        error = narrow.filtered.error or (narrow.scored.error if narrow.scored else "")
        if error or not narrow.found:
            return Misfit(pod, wide, unschedulable(narrow.filtered), error)
        node = self._pick(narrow.best)
        if not self._hands_out:
            return Seat(pod, wide, node)
        question = Question(pod, here.nodes, here, self._attempt.now)
        given = allocate(self._policies, question, node, self._attempt)
        if given.refusal:
            return Misfit(pod, wide, f"{given.refusal}.")
        return Seat(pod, wide, node, given.annotations)

    def _choose(self, pod: Pod, here: Snapshot) -> Choice:
        """A choice over all nodes; members are mostly alike, and only the nodes of those before differ."""
        attempt = self._attempt
        return choose(self._policies, pod, here, now=attempt.now, attempt=attempt, memory=self._memory)
