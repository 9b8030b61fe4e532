"""Gangs in the scheduler: at the turn of one member all members are judged and placed together.

Members wait beside the queue until there are enough of them; other pods go on meanwhile. Nothing is held for
a gang before each member has a node, so two gangs cannot each hold what the other one needs.
"""

import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from bayplan.authoring.gang import Gang
from bayplan.authoring.registry import Policy
from bayplan.engine.company import GangKey
from bayplan.engine.decision import Decision
from bayplan.engine.gang import Plan
from bayplan.engine.gang_record import waits
from bayplan.engine.guard import Attempt
from bayplan.engine.membership import ALONE
from bayplan.kube.pod import Pod
from bayplan.ops.schedule_metrics import ScheduleMetrics
from bayplan.runtimes.scheduler.band import Band, attendance, muster, refusal, wants_node
from bayplan.runtimes.scheduler.gang_judge import GangJudge
from bayplan.runtimes.scheduler.gang_watch import GangWatch
from bayplan.runtimes.scheduler.generation import Generation
from bayplan.runtimes.scheduler.hints import NODES, helped_by, refused_by
from bayplan.runtimes.scheduler.inbox import Inbox
from bayplan.runtimes.scheduler.naming import Naming
from bayplan.runtimes.scheduler.placing import Placing
from bayplan.runtimes.scheduler.queue import ANYTHING, News, Waiting
from bayplan.runtimes.scheduler.report import Reporter
from bayplan.runtimes.scheduler.roster import Roster
from bayplan.runtimes.workers import RequestOverrun, Workers
from bayplan.state import news
from bayplan.state.live import LiveCluster

log = logging.getLogger(__name__)

_ROOM: News = news.PODS | NODES


class Gangs:
    """All gangs of our schedulers' pods."""

    def __init__(
        self,
        generation: Callable[[], Generation],
        *,
        inbox: Inbox,
        live: LiveCluster,
        workers: Workers,
        placing: Placing,
        reporter: Reporter,
        metrics: ScheduleMetrics,
        record: Callable[[str, Decision], object] = lambda *_: None,
        ran: Callable[[Attempt], object] = lambda _: None,
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``generation`` returns the policies in force; ``record`` gets decisions, ``ran`` attempts."""
        self._generation = generation
        self._inbox = inbox
        self._cache = live.view.cache
        self._placing = placing
        self._reporter = reporter
        self._metrics = metrics
        self._record = record
        self._judge = GangJudge(
            generation,
            workers=workers,
            inbox=inbox,
            record=record,
            ran=ran,
            rng=rng or random.Random(),  # noqa: S311 - which of equals, no secret
        )
        self.roster = Roster(self._policies, clock=clock)
        self._naming = Naming(generation, self.roster, workers=workers, ran=ran)
        self.watch = GangWatch(
            self._muster,
            inbox=inbox,
            reporter=reporter,
            metrics=metrics,
            snapshot=self._cache.snapshot,
            record=record,
            clock=clock,
        )

    def concerns(self, pod: Pod) -> bool:
        """Whether the pod is in a gang or may be; until that is known, it must not be judged alone."""
        said = self.roster.of(pod.uid)
        return self.roster.concerns(pod) if said is None else said != ALONE

    def reload(self) -> None:
        """Ask again which pods are in which gangs, since a reload replaced the policies."""
        self.roster.ask_again()
        for pod in self._inbox.queue.pods():
            parked = self._inbox.queue.find(pod.uid)
            if parked is not None:
                self._inbox.queue.unpark(parked)

    def gone(self, uid: str) -> None:
        """A pod was deleted."""
        key = self.roster.gone(uid)
        if key is None:
            return
        gang = self.roster.gang(key)
        if gang is None:
            self.watch.done(key)
        elif self.roster.count(key) < gang.size:
            self.watch.changed(key, gang)
        else:
            self._one_less(key, gang)
        self._inbox.wake.set()

    def _one_less(self, key: GangKey, gang: Gang) -> None:
        """A member is gone, and enough are left, some of which may not be ready."""
        waiting, placed = attendance(key, self.roster, self._inbox.queue, self._cache)
        if len(waiting) + len(placed) < gang.size:
            self.watch.changed(key, gang)
            return
        for one in waiting:
            self._inbox.queue.unpark(one)
            if len(placed) < gang.size:
                # The deleted member may be the one that did not fit.
                self._inbox.queue.wake(one.pod.uid)

    async def turn(self, waiting: Waiting) -> bool:
        """Handle the turn of a pod; False if it is in no gang and must be judged alone."""
        pod = waiting.pod
        if pod.scheduler_name not in self._generation().judges or not self.concerns(pod):
            return False
        self.roster.seen(pod)
        began = time.perf_counter()
        asked = await self._naming.ask(pod)
        if asked.problem:
            self._failed([waiting], asked.problem, began)
            return True
        said = self.roster.of(pod.uid)
        if said is None or self._inbox.queue.find(pod.uid) is not waiting:
            # The pod was replaced or deleted meanwhile.
            self._inbox.failed(waiting)
            return True
        if said.problem:
            self._parked(waiting, said.problem)
            return True
        if said.gang is None:
            return False
        key = pod.namespace, said.gang.name
        if asked.whole:
            await self._turn_of(key, said.gang, waiting)
        else:
            # Unknown members may exist: the gang could wait for them, or go to another rack than theirs.
            why = f"gang {'/'.join(key)}: not all pods of the namespace could be asked about in time"
            self._failed([waiting], why, began)
        return True

    async def _turn_of(self, key: GangKey, gang: Gang, mine: Waiting) -> None:
        if not wants_node(mine.pod, self._cache):
            # The pod got a node or is terminating, since hooks ran for other members.
            self._inbox.failed(mine)
            return
        band = self._complete(key, gang, mine)
        if band is None or band.discord or not band.complete:
            self._inbox.queue.park(mine)
            self.watch.waits(key, band.gang if band is not None else gang)
            return
        if not band.needed:
            # The gang has its nodes: the pod joins it, whatever becomes of others that want to.
            band = replace(band, waiting=(mine,))
        unit = band.waiting[: band.needed] or (mine,)
        if all(one is not mine for one in unit):
            self._parked(mine, f"{band.title}: its first {band.gang.size} members come before this one")
            return
        others = [one for one in unit if one is not mine]
        if self._inbox.queue.ask_first(others):
            self._inbox.queue.park(mine)
            self.watch.waits(key, band.gang)
            return
        for one in others:
            self._inbox.queue.take_too(one)
        await self._guarded(band, unit)

    def _complete(self, key: GangKey, gang: Gang, mine: Waiting) -> Band | None:
        """The gang, if there are enough members by these settings.

        Every member has its turn, and a gang may have thousands: each look at all of them must be short.
        """
        if self.roster.count(key) < gang.size:
            return None
        waiting, placed = attendance(key, self.roster, self._inbox.queue, self._cache, mine=mine)
        if len(waiting) + len(placed) < gang.size:
            return None
        if len(placed) >= gang.size and gang == self.roster.gang(key):
            return Band(key, gang, (mine,), tuple(placed))
        return self._muster(key, mine)

    async def _guarded(self, band: Band, unit: Sequence[Waiting]) -> None:
        """Judge these members; a surprise puts them back into the queue."""
        began = time.perf_counter()
        try:
            await self._attempt(band, unit)
        except Exception as error:
            # A gang must neither stop the loop nor be forgotten.
            log.exception("%s: the attempt failed", band.title)
            taken = [one for one in unit if one.place == "taken"]
            for one in taken:
                self._inbox.failed(one)
            here = [one for one in taken if self._inbox.queue.find(one.pod.uid) is one]
            self._tell_failed(here, f"{band.title}: {type(error).__name__}: {error}", began)

    async def _attempt(self, band: Band, unit: Sequence[Waiting]) -> None:
        began = time.perf_counter()
        try:
            plan = await self._judge.judge(band, [one.pod for one in unit], self._cache.snapshot)
        except RequestOverrun as error:
            return self._failed(unit, str(error), began)
        self._metrics.algorithm_duration.observe(time.perf_counter() - began)
        if any(self._inbox.queue.find(one.pod.uid) is not one for one in unit):
            # A member is gone, and the others are incomplete without it.
            for one in unit:
                self._inbox.failed(one)
            return None
        if plan.misfit is None:
            return self._place(band, unit, plan, began)
        if plan.misfit.error:
            return self._failed(unit, plan.misfit.error, began)
        return self._refuse(band, unit, plan, began)

    def _place(self, band: Band, unit: Sequence[Waiting], plan: Plan, began: float) -> None:
        seats = {seat.pod.uid: seat for seat in plan.seats}
        places = [(one, seats[one.pod.uid].node, seats[one.pod.uid].annotations) for one in unit]
        timeout_seconds = band.gang.timeout_seconds
        if not self._placing.place_all(
            places, title=band.title, began=began, timeout_seconds=timeout_seconds
        ):
            return
        if not band.needed:
            return
        self._metrics.gangs.labels("placed").inc()
        where = f" in {plan.domain}" if plan.domain else ""
        log.info("%s: %d of %d members have their places%s", band.title, len(unit), band.gang.size, where)
        self.watch.done(band.key)
        for one in band.waiting:
            self._inbox.queue.unpark(one)

    def _refuse(self, band: Band, unit: Sequence[Waiting], plan: Plan, began: float) -> None:
        assert plan.misfit is not None, "a member did not fit"
        told = refusal(band, plan)
        seconds = time.perf_counter() - began
        nowhere = band.gang.domain is not None and not plan.domains
        handed_out = plan.misfit.choice.found and not nowhere
        topics, by = _helped_by(plan), _refused_by(plan)
        for one in unit:
            self._metrics.attempted("unschedulable", one.pod.scheduler_name, seconds=seconds)
            if handed_out:
                # A policy refused to allocate; that may change at any moment, so no event is waited for.
                self._inbox.failed(one)
            else:
                self._inbox.refused(one, helped_by=topics, by=by)
        if band.needed:
            self._metrics.gangs.labels("refused").inc()
            self.watch.refused(band, told)
        else:
            self._reporter.unscheduled(plan.misfit.pod, "Unschedulable", told[plan.misfit.pod.uid])
        log.info("%s", told[plan.misfit.pod.uid], extra={"pod": plan.misfit.pod.key})

    def _failed(self, unit: Sequence[Waiting], message: str, began: float) -> None:
        for one in unit:
            log.warning("pod %s: %s", one.pod.key, message, extra={"pod": one.pod.key})
            self._inbox.failed(one)
        self._tell_failed(unit, message, began)

    def _tell_failed(self, unit: Sequence[Waiting], message: str, began: float) -> None:
        seconds = time.perf_counter() - began
        for one in unit:
            self._metrics.attempted("error", one.pod.scheduler_name, seconds=seconds)
            self._reporter.unscheduled(one.pod, "SchedulerError", message)

    def _parked(self, waiting: Waiting, message: str) -> None:
        """Let the pod wait, whatever the events, until it changes or its gang is placed."""
        pod = waiting.pod
        self._inbox.queue.park(waiting)
        log.info("pod %s: %s", pod.key, message, extra={"pod": pod.key})
        self._reporter.unscheduled(pod, "Unschedulable", message)
        self._record("filter", waits(pod, self._cache.snapshot(), message))

    def _policies(self, name: str) -> Sequence[Policy]:
        judge = self._generation().judges.get(name)
        return judge.policies if judge is not None else ()

    def _muster(self, key: GangKey, mine: Waiting | None = None) -> Band | None:
        return muster(key, self.roster, self._inbox.queue, self._cache, mine=mine)


def _helped_by(plan: Plan) -> News:
    """The topics that may help; more room always does, since domains that are too small were not judged.

    Domains that refuse the first member were not judged either, except for that member.
    """
    refused = [misfit.choice for misfit in plan.misfits] + ([plan.first] if plan.first is not None else [])
    topics = _ROOM.union(*map(helped_by, refused))
    return ANYTHING if topics >= ANYTHING else topics


def _refused_by(plan: Plan) -> frozenset[str]:
    return frozenset[str]().union(*(refused_by(misfit.choice) for misfit in plan.misfits))
