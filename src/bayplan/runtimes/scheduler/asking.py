"""Runs the ``gate`` and ``order`` hooks for pods in the lobby, many pods in one batch.

Hooks run at once for new pods. For pods that are kept out they run again after an event that may help, all in
one round. Rounds take no more than a tenth of the time, however many pods there are and however slow a hook.
"""

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import Callable, Mapping

from bayplan.authoring.registry import Policy
from bayplan.authoring.verdict import Reason
from bayplan.engine.entering import Admission, Entrance
from bayplan.engine.guard import Attempt
from bayplan.kube.pod import Pod
from bayplan.ops.logs import Sparingly
from bayplan.runtimes.scheduler.by_news import TIME
from bayplan.runtimes.scheduler.inbox import Inbox
from bayplan.runtimes.scheduler.waiting import ANYTHING, Waiting
from bayplan.runtimes.workers import RequestOverrun, Workers
from bayplan.snapshot.cluster import Snapshot

log = logging.getLogger(__name__)

Asked = tuple[int, Waiting]
"""A pod to run hooks for, with its ticket."""

_LET_IN = Admission()
_FAILED = Admission(Reason("policies could not be asked"))
_BATCH = 256
# After so long, other threads get the interpreter.
_BATCH_SECONDS = 0.02
_ROUND_SECONDS = 1.0
# After each second of a round, so many seconds without one.
_REST_SHARE = 9.0
_TIME_SECONDS = 10.0
_STAND_BY_SECONDS = 0.1


class Asking:
    """Runs hooks for the pods in the lobby."""

    def __init__(
        self,
        profiles: Mapping[str, tuple[Policy, ...]],
        *,
        inbox: Inbox,
        workers: Workers,
        cluster: Callable[[], Snapshot],
        may: Callable[[], bool],
        ran: Callable[[Attempt], object] = lambda _: None,
        on_change: Callable[[Pod, str, str], object] = lambda *_: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``may``: whether this server schedules now.

        ``on_change`` gets a pod, why it is kept out (``""`` if it is let in), and the policy.
        """
        self._inbox = inbox
        self._queue = inbox.queue
        self._workers = workers
        self._cluster = cluster
        self._may = may
        self._ran = ran
        self._on_change = on_change
        self._clock = clock
        self._warnings = Sparingly()
        self._round_at = 0.0
        self._again_at = 0.0
        self._time_at = clock() + _TIME_SECONDS
        self.use(profiles)

    def use(self, profiles: Mapping[str, tuple[Policy, ...]]) -> None:
        """Use these policies from now on, and run their hooks for all pods that are kept out."""
        self._entrances = {name: Entrance(policies) for name, policies in profiles.items()}
        # Through the inbox, which also wakes the loop for pods that are let in.
        self._inbox.told(ANYTHING)

    def concerns(self, pod: Pod) -> bool:
        """Whether any ``gate`` or ``order`` hook applies to this pod."""
        entrance = self._entrances.get(pod.scheduler_name)
        return entrance is not None and entrance.concerns(pod)

    async def run(self) -> None:
        """Run hooks until cancelled."""
        while True:
            if not self._may():
                await asyncio.sleep(_STAND_BY_SECONDS)
            elif batch := self._next():
                try:
                    await self._settle(batch)
                except Exception:
                    # Whatever the error, these pods must not be forgotten, and others must go on.
                    log.exception("asking about %d pods failed", len(batch))
                    for ticket, waiting in batch:
                        self._answer(waiting, ticket, _FAILED)
            else:
                await self._news()

    def _next(self) -> list[Asked]:
        now = self._clock()
        if now >= self._time_at:
            self._time_at = now + _TIME_SECONDS
            self._inbox.told(TIME)
        lobby = self._queue.lobby
        if lobby.due and not lobby.in_round and now >= self._round_at:
            self._round_at = now + _ROUND_SECONDS
            lobby.begin_round()
        return self._queue.to_ask(_BATCH, again=now >= self._again_at)

    async def _news(self) -> None:
        """Wait for a new pod, or until it is time for another round."""
        self._inbox.asking.clear()
        until, lobby = self._time_at, self._queue.lobby
        if lobby.in_round:
            until = min(until, self._again_at)
        elif lobby.due:
            until = min(until, self._round_at)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.005, until - self._clock())):
                await self._inbox.asking.wait()

    async def _settle(self, batch: list[Asked]) -> None:
        began = self._clock()
        again = any(waiting.kept_out for _, waiting in batch)
        answers = await self._ask(batch)
        if answers is None:
            # A hook overran for one of these pods; running them one by one shows for which.
            for one in batch:
                await self._settle([one])
        else:
            for (ticket, waiting), said in zip(batch, answers, strict=False):
                self._answer(waiting, ticket, said)
            for ticket, waiting in batch[len(answers) :]:
                self._queue.ask_later(waiting, ticket)
        if again:
            self._again_at = self._clock() + _REST_SHARE * (self._clock() - began)
        await asyncio.sleep(0)

    async def _ask(self, batch: list[Asked]) -> list[Admission] | None:
        """Run the hooks for the first of these pods, as many as there is time for, at least one.

        ``None`` if a hook overran for an unknown one of several pods.
        """
        asked = [(waiting.pod, self._entrances.get(waiting.pod.scheduler_name)) for _, waiting in batch]
        looks = any(entrance is not None and entrance.looks_at_cluster for _, entrance in asked)
        cluster = self._cluster() if looks else None
        tries = itertools.count()

        def work(attempt: Attempt) -> list[Admission] | None:
            if next(tries) and len(batch) > 1:
                return None
            answers = []
            until = time.perf_counter() + _BATCH_SECONDS
            for pod, entrance in asked:
                answers.append(_LET_IN if entrance is None else entrance.ask(pod, cluster, attempt))
                if time.perf_counter() > until:
                    break
            self._ran(attempt)
            return answers

        try:
            return await self._workers.run(work)
        except RequestOverrun as error:
            return [Admission(Reason(str(error)))] * len(batch)

    def _answer(self, waiting: Waiting, ticket: int, said: Admission) -> None:
        pod, before = waiting.pod, waiting.kept_out
        for hook, failure in said.failures:
            text = f"{failure.text} (pod {pod.key}, {hook.spec.kind})"
            if hook.spec.kind == "order":
                text += "; it stands by its priority"
            self._warnings.warn(log, f"{hook.title} {failure.kind}", text, pod=pod.key)
        if said.reason is None:
            if self._inbox.let_in(waiting, ticket, key=said.key) and before:
                self._on_change(pod, "", said.by)
            return
        text = said.reason.text
        if not self._queue.keep_out(waiting, ticket, why=text, helped_by=said.helped_by):
            return
        # Its nominated node would stay empty while the pod is kept out.
        self._inbox.give_back(pod.uid)
        if text != before:
            self._on_change(pod, text, said.by)
