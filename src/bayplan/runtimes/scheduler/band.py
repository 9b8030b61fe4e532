"""Collects a gang's members at one moment: those in the queue and those on nodes."""

from bayplan.authoring.gang import Gang
from bayplan.engine.company import Company, GangKey, discord
from bayplan.engine.gang import Plan, member_order
from bayplan.kube.pod import Pod
from bayplan.runtimes.scheduler.queue import PodQueue, Waiting
from bayplan.runtimes.scheduler.roster import Roster
from bayplan.state.cache import Cache

READY = ("active", "backoff", "unschedulable", "gang")
"""The places in the queue of members that could be judged now: not gated, and not being bound."""

Band = Company[Waiting]


def attendance(
    key: GangKey, roster: Roster, queue: PodQueue, cache: Cache, *, mine: Waiting | None = None
) -> tuple[list[Waiting], list[Pod]]:
    """The members that could be judged now, in no order, and those that have a node.

    Each member of a gang has a turn, and the gang may have thousands: so this does as little as possible.
    """
    waiting: list[Waiting] = []
    placed: list[Pod] = []
    for uid, name in roster.keys(key).items():
        found = queue.find(uid)
        if found is not None and (found is mine or found.place in READY):
            # The queue drops pods that get a node, or are being deleted.
            waiting.append(found)
            continue
        pod = cache.pod(name)
        if pod is not None and pod.node_name and pod.uid == uid and not pod.terminating:
            placed.append(pod)
    return waiting, placed


def muster(
    key: GangKey, roster: Roster, queue: PodQueue, cache: Cache, *, mine: Waiting | None = None
) -> Band | None:
    """The gang at this moment; ``mine`` is the member whose turn it is. ``None`` if no member waits."""
    waiting, placed = attendance(key, roster, queue, cache, mine=mine)
    if not waiting:
        return None
    waiting.sort(key=lambda one: member_order(one.pod))
    said = [(one.pod, _gang(roster, one.pod)) for one in waiting]
    return Band(key, said[0][1], tuple(waiting), tuple(placed), discord(said))


def wants_node(member: Pod, cache: Cache) -> bool:
    """Whether the pod still exists, is not terminating, and has no node."""
    pod = cache.pod(member.key)
    return pod is not None and pod.uid == member.uid and not pod.terminating and not pod.node_name


def refusal(band: Band, plan: Plan) -> dict[str, str]:
    """The message for each waiting member, by UID, if one member does not fit."""
    assert plan.misfit is not None, "a member did not fit"
    own, others = band.refusal(plan)
    return {one.pod.uid: own if one.pod.uid == plan.misfit.pod.uid else others for one in band.waiting}


def _gang(roster: Roster, pod: Pod) -> Gang:
    said = roster.of(pod.uid)
    assert said is not None, "the roster lists members with a known membership only"
    assert said.gang is not None, "the roster lists members of gangs only"
    return said.gang
