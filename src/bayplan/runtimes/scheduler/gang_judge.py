"""Judges a gang in a policy thread, and records a decision for each member."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence

from bayplan.authoring.registry import Policy
from bayplan.engine.decision import Decision
from bayplan.engine.gang import Plan, plan_gang
from bayplan.engine.gang_record import waits
from bayplan.engine.guard import Attempt
from bayplan.kube.pod import Pod
from bayplan.runtimes.needs import newest, sources_for
from bayplan.runtimes.scheduler.band import Band, refusal
from bayplan.runtimes.scheduler.generation import Generation
from bayplan.runtimes.scheduler.inbox import Inbox
from bayplan.runtimes.workers import Workers
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.sources import Readings
from bayplan.state.sources.book import Sources

PATIENCE_SECONDS = 0.005
"""A small gang takes a few milliseconds; the event loop goes on beside larger ones."""
# About so many members a source is asked at a time: no other pod is judged until it has answered for all.
# Each call has a deadline, so more of them would wait for a connection, and time out.
_ASKED_AT_ONCE = 8


class GangJudge:
    """Finds nodes for gangs."""

    def __init__(
        self,
        generation: Callable[[], Generation],
        *,
        workers: Workers,
        inbox: Inbox,
        record: Callable[[str, Decision], object],
        ran: Callable[[Attempt], object],
        rng: random.Random,
    ) -> None:
        """``record`` gets decisions, ``ran`` attempts with the hooks that ran."""
        self._generation = generation
        self._workers = workers
        self._inbox = inbox
        self._record = record
        self._ran = ran
        self._rng = rng

    async def judge(self, band: Band, pods: Sequence[Pod], snapshot: Callable[[], Snapshot]) -> Plan:
        """Plan these members of the gang."""
        # A reload during this attempt must not change its policies.
        with self._generation().used() as generation:
            return await self._judge(generation, band, pods, snapshot)

    async def _judge(
        self, generation: Generation, band: Band, pods: Sequence[Pod], snapshot: Callable[[], Snapshot]
    ) -> Plan:
        policies = generation.judges[pods[0].scheduler_name].policies
        for pod in pods:
            self._inbox.give_back(pod.uid)
        # Nominations count for the whole gang as they do for its least important member.
        least = min(pods, key=lambda pod: pod.priority)
        asked = snapshot()
        readings = await _readings(generation.sources, policies, pods, asked)
        cluster = newest(asked, snapshot()).expecting(self._inbox.nominations.before(least))
        pinned = band.pinned(cluster)

        def work(attempt: Attempt) -> Plan:
            plan = plan_gang(
                policies,
                band.gang,
                pods,
                cluster,
                attempt=attempt,
                pinned=pinned,
                pick=self._rng.choice,
                look=lambda seen, pod: seen.with_readings(readings[pod.uid]),
            )
            self._write_down(band, plan, cluster)
            self._ran(attempt)
            return plan

        shadows = {policy.name for policy in policies if policy.shadow}
        return await self._workers.run(work, optional=shadows, patience_seconds=PATIENCE_SECONDS)

    def _write_down(self, band: Band, plan: Plan, cluster: Snapshot) -> None:
        """Record each member's decision; members that would fit get one that says whom they wait for."""
        if plan.misfit is None:
            for choice in (seat.choice for seat in plan.seats if seat.choice is not None):
                self._record("filter", choice.filtered)
                if choice.scored is not None:
                    self._record("prioritize", choice.scored)
            return
        self._record("filter", plan.misfit.choice.filtered)
        told = refusal(band, plan)
        for one in band.waiting:
            if one.pod.uid != plan.misfit.pod.uid:
                self._record("filter", waits(one.pod, cluster, told[one.pod.uid]))


async def _readings(
    sources: Sources, policies: Sequence[Policy], pods: Sequence[Pod], cluster: Snapshot
) -> Mapping[str, Readings]:
    """The readings of sources for each pod, by UID."""
    if not sources.asked:
        return dict.fromkeys((pod.uid for pod in pods), sources.current)
    names = list(cluster.nodes.names)
    hands = asyncio.Semaphore(_ASKED_AT_ONCE)

    async def about(pod: Pod) -> Readings:
        async with hands:
            return await sources.about(pod, names, wanted=sources_for(policies, pod))

    found = await asyncio.gather(*map(about, pods))
    return {pod.uid: readings for pod, readings in zip(pods, found, strict=True)}
