"""A gang of the scheduler as it stands: of its members, those that are in the queue and those on nodes."""

from bayplan.authoring.gang import Gang
from bayplan.engine.company import Company, GangKey, discord
from bayplan.engine.gang import Plan, member_order
from bayplan.kube.pod import Pod
from bayplan.runtimes.scheduler.queue import PodQueue, Waiting
from bayplan.runtimes.scheduler.roster import Roster
from bayplan.state.cache import Cache

READY = ("active", "backoff", "unschedulable", "gang")
"""Where a member is that could be judged now: not behind a gate, and not on its way to a node."""

Band = Company[Waiting]


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
    return Band(key, said[0][1], tuple(waiting), tuple(placed), discord(said))


def wants_node(member: Pod, cache: Cache) -> bool:
    """Whether the pod is still there, and nobody has given it a node."""
    pod = _now(member, cache)
    return pod is not None and not pod.node_name


def refusal(band: Band, plan: Plan) -> dict[str, str]:
    """What each member is told, by UID, when one of them does not fit."""
    assert plan.misfit is not None, "somebody did not fit"
    own, others = band.refusal(plan)
    return {one.pod.uid: own if one.pod.uid == plan.misfit.pod.uid else others for one in band.waiting}


def _now(member: Pod, cache: Cache) -> Pod | None:
    """The pod as it is now; ``None`` where it is gone, or about to go."""
    pod = cache.pod(member.key)
    return None if pod is None or pod.uid != member.uid or pod.terminating else pod


def _gang(roster: Roster, pod: Pod) -> Gang:
    said = roster.of(pod.uid)
    assert said is not None, "a member is known by what was said of it"
    assert said.gang is not None, "a member is known by its gang"
    return said.gang
