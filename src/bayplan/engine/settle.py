"""Places pods one after another on a snapshot, gangs all together or not at all, without a queue.

For the simulator and the tests: nothing is bound, nothing waits, and no pod is evicted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bayplan.authoring.gang import Gang
from bayplan.authoring.registry import Policy
from bayplan.engine.company import Company, GangKey, discord
from bayplan.engine.gang import Look, Misfit, Plan, Seat, member_order, plan_gang
from bayplan.engine.guard import Attempt
from bayplan.engine.membership import Membership, membership
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.draft import Draft


@dataclass
class Settled:
    """The node of each pod, or why it has none."""

    cluster: Snapshot
    """The cluster with all placed pods."""
    seats: dict[str, Seat] = field(default_factory=dict)
    """The placed pods, by UID."""
    refused: dict[str, str] = field(default_factory=dict)
    """Why the others have no node, by UID."""
    misfits: list[Misfit] = field(default_factory=list)
    """The pods that fit nowhere, with their decisions."""
    domains: dict[GangKey, str] = field(default_factory=dict)
    """The rack or zone of each gang that has one."""


def settle(
    policies: Sequence[Policy],
    pods: Sequence[Pod],
    cluster: Snapshot,
    *,
    attempt: Attempt,
    pick: Callable[[Sequence[str]], str] = lambda names: names[0],
    look: Look = lambda cluster, _: cluster,
) -> Settled:
    """Place these pods in this order; a gang is placed at the turn of its first member.

    Members that are already on nodes count as in the scheduler: the others join them in their domain.
    """
    return _Settling(policies, pods, cluster, attempt=attempt, pick=pick, look=look).run()


def on_nodes(cluster: Snapshot, mine: Pod, member: Callable[[Pod], bool]) -> list[Pod]:
    """The members of this pod's scheduler that have a node and are not terminating."""
    return [
        pod
        for pod in (cluster.pods if cluster.pods_known else ())
        if pod.node_name and not pod.terminating and pod.scheduler_name == mine.scheduler_name and member(pod)
    ]


def _has_node(cluster: Snapshot, uid: str) -> bool:
    known = cluster.pods_by_uid.get(uid)
    return known is not None and bool(known.node_name)


class _Settling:
    """The state of one `settle`."""

    def __init__(
        self,
        policies: Sequence[Policy],
        pods: Sequence[Pod],
        cluster: Snapshot,
        *,
        attempt: Attempt,
        pick: Callable[[Sequence[str]], str],
        look: Look,
    ) -> None:
        self._policies = policies
        self._pods = pods
        self._attempt = attempt
        self._pick = pick
        self._look = look
        self._said: dict[str, Membership] = {}
        # Pods that have a node already are placed anew.
        on_nodes = {uid for uid in (pod.uid for pod in pods) if _has_node(cluster, uid)}
        self._found = Settled(cluster.without(on_nodes) if on_nodes else cluster)
        self._draft: Draft | None = None

    def run(self) -> Settled:
        """Place every pod in turn."""
        for pod in self._pods:
            if self._waits(pod):
                self._turn(pod)
        return self._found

    def _waits(self, pod: Pod) -> bool:
        return pod.uid not in self._found.seats and pod.uid not in self._found.refused

    def _turn(self, pod: Pod) -> None:
        said = self._membership(pod)
        if said.problem or said.error:
            self._found.refused[pod.uid] = said.problem or said.error
            return
        if said.gang is None:
            plan = self._plan(Gang(pod.name or "pod", size=1), [pod])
            if plan.misfit is not None:
                self._found.refused[pod.uid] = plan.misfit.error or plan.misfit.sentence
            return
        company = self._muster((pod.namespace, said.gang.name), pod)
        if company.discord or not company.complete:
            why = f"{company.title}: {company.discord}" if company.discord else company.counted()
            self._refuse(company, why)
            return
        unit = company.waiting[: company.needed] if company.needed else (pod,)
        plan = self._plan(company.gang, unit, pinned=company.pinned(self._found.cluster))
        if plan.misfit is not None:
            own, others = company.refusal(plan)
            if company.needed:
                self._refuse(company, plan.misfit.error or others)
            self._found.refused[plan.misfit.pod.uid] = plan.misfit.error or own
        elif plan.domain:
            self._found.domains[company.key] = plan.domain

    def _refuse(self, company: Company[Pod], why: str) -> None:
        self._found.refused.update(dict.fromkeys((one.uid for one in company.waiting), why))

    def _plan(self, gang: Gang, pods: Sequence[Pod], *, pinned: str = "") -> Plan:
        found = self._found
        plan = plan_gang(
            self._policies,
            gang,
            pods,
            found.cluster,
            attempt=self._attempt,
            pinned=pinned,
            pick=self._pick,
            look=self._look,
        )
        if plan.misfit is not None:
            found.misfits.append(plan.misfit)
            return plan
        if self._draft is None:
            self._draft = Draft(found.cluster)
        for seat in plan.seats:
            found.seats[seat.pod.uid] = seat
            self._draft.place(seat.pod, seat.node, seat.annotations)
        # Not a copy of the last one: a thousand copies would each have a list of all pods.
        found.cluster = self._draft.snapshot
        return plan

    def _muster(self, key: GangKey, mine: Pod) -> Company[Pod]:
        waiting = sorted(
            (pod for pod in self._pods if self._waits(pod) and self._in(key, pod)), key=member_order
        )
        placed = on_nodes(self._found.cluster, mine, lambda pod: self._in(key, pod))
        said = [(pod, gang) for pod in waiting if (gang := self._membership(pod).gang) is not None]
        return Company(key, said[0][1], tuple(waiting), tuple(placed), discord(said))

    def _in(self, key: GangKey, pod: Pod) -> bool:
        if pod.namespace != key[0]:
            return False
        gang = self._membership(pod).gang
        return gang is not None and gang.name == key[1]

    def _membership(self, pod: Pod) -> Membership:
        known = self._said.get(pod.uid)
        if known is None:
            known = self._said[pod.uid] = membership(self._policies, pod, self._attempt)
        return known
