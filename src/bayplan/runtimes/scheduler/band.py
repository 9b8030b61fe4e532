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


def muster(
    key: GangKey, roster: Roster, queue: PodQueue, cache: Cache, *, mine: Waiting | None = None
) -> Band | None:
    """The gang at this moment; ``mine`` is the member whose turn it is. ``None`` if no member waits."""
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
    return Band(key, said[0][1], tuple(waiting), tuple(placed), discord(said))


def wants_node(member: Pod, cache: Cache) -> bool:
    """Whether the pod still exists and has no node."""
    pod = _now(member, cache)
    return pod is not None and not pod.node_name


def refusal(band: Band, plan: Plan) -> dict[str, str]:
    """The message for each waiting member, by UID, if one member does not fit."""
    assert plan.misfit is not None, "a member did not fit"
    own, others = band.refusal(plan)
    return {one.pod.uid: own if one.pod.uid == plan.misfit.pod.uid else others for one in band.waiting}


def _now(member: Pod, cache: Cache) -> Pod | None:
    """The pod as it is now; ``None`` if it is gone or terminating."""
    pod = cache.pod(member.key)
    return None if pod is None or pod.uid != member.uid or pod.terminating else pod


def _gang(roster: Roster, pod: Pod) -> Gang:
    said = roster.of(pod.uid)
    assert said is not None, "the roster lists members with a known membership only"
    assert said.gang is not None, "the roster lists members of gangs only"
    return said.gang
