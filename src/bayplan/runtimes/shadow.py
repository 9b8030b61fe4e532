"""Lets a candidate configuration judge answered requests again, and counts where it disagrees.

The candidate runs while the live side is quiet, one call at a time, in a thread of its own with the same
deadlines for hooks. Its decisions are compared and counted, and have no other effect. Calls that come while
too many wait are skipped, so nothing ever waits for the candidate.
"""

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from msgspec import structs

from bayplan.config.candidate import Candidate
from bayplan.config.v1 import ShadowSection
from bayplan.engine.differ import Difference
from bayplan.engine.shadowing import NO_SHADOW, Disagreements, ShadowReport
from bayplan.ops.logs import Sparingly
from bayplan.ops.shadow_metrics import ShadowMetrics
from bayplan.runtimes.generation import Generation
from bayplan.runtimes.limits import Limits
from bayplan.runtimes.rejudge import CandidateFailed, Precedent, judge_again
from bayplan.runtimes.understudy import Profiles, Understudy
from bayplan.runtimes.workers import RequestOverrun, Workers
from bayplan.state.sources.book import Watchers
from bayplan.wire.codec import WireError

log = logging.getLogger(__name__)

VERBS = ("filter", "prioritize")
# Longer than the pause between a pod's filter and its prioritize. A thread of lower priority would not do: it
# could hold the interpreter's lock while it gets no processor time.
_QUIET_SECONDS = 0.02
# On a server that is never quiet, the candidate still judges one call in this time.
_SELDOM_SECONDS = 1.0
# Waiting requests with full nodes keep their nodes in memory.
_WAITING_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class ShadowOptions:
    """A candidate, and how much it judges."""

    candidate: Candidate
    sample_ratio: float = 1.0
    max_waiting: int = 32
    examples: int = 50
    profiles: Profiles = field(default_factory=dict)
    """The policies for the pods of each ``schedulerName``; other pods get the candidate's policies."""


def shadow_options(
    section: ShadowSection, candidate: Candidate, *, profiles: Profiles | None = None
) -> ShadowOptions:
    """The candidate, with the live configuration's settings for it."""
    return ShadowOptions(
        candidate,
        sample_ratio=section.sample_ratio,
        max_waiting=section.max_waiting,
        examples=section.examples,
        profiles=profiles or {},
    )


class Shadow:
    """The candidate's side of a server. Used on the event loop only."""

    def __init__(
        self,
        *,
        limits: Limits,
        metrics: ShadowMetrics,
        idle: asyncio.Event,
        watchers: Watchers | None = None,
        dice: random.Random | None = None,
    ) -> None:
        """``idle`` is set while no request is being answered."""
        self.problem: Callable[[], str] = str
        """Why the last change of the candidate was refused."""
        self._limits = limits
        self._metrics = metrics
        self._idle = idle
        self._watchers = watchers
        self._dice = dice or random.Random()  # noqa: S311 - a sample, no secret
        self._options: ShadowOptions | None = None
        self._understudy: Understudy | None = None
        self._workers: Workers | None = None
        self._number = 0
        self._waiting: deque[Precedent] = deque()
        self._bytes = 0
        self._asked_at = self._judged_at = 0.0
        self._news = asyncio.Event()
        self._free = asyncio.Event()
        self._free.set()
        self._ending: set[asyncio.Task[None]] = set()
        self._book = Disagreements(examples=1)
        self._warnings = Sparingly()

    @property
    def active(self) -> bool:
        """Whether there is a candidate."""
        return self._options is not None

    def adopt(self, options: ShadowOptions | None, live: Generation) -> None:
        """Compare this candidate with that live generation from now on; ``None`` for no candidate."""
        before = self._understudy
        candidate = options.candidate if options is not None else None
        other = before is None or before.candidate is not candidate
        self._let_go(before, forget=other)
        self._options = options
        if options is None or candidate is None:
            return
        if other:
            self._number += 1
            self._renew_workers()
        self._book = Disagreements(examples=options.examples)
        self._understudy = Understudy(
            candidate, live, number=self._number, watchers=self._watchers, profiles=options.profiles
        )
        if before is not None:
            self._understudy.sources.take_over(before.sources)
        self._understudy.start()

    def beside(self, live: Generation) -> None:
        """Compare the candidate, if there is one, with another live generation."""
        if self._options is not None:
            self.adopt(self._options, live)

    def offer(self, call: Precedent) -> None:
        """Queue a call for the candidate; it is skipped if too many wait."""
        options = self._options
        self._asked_at = time.monotonic()
        if options is None or call.verb not in VERBS:
            return
        if (call.live is not None and call.live.error) or self._dice.random() >= options.sample_ratio:
            return
        full = len(self._waiting) >= options.max_waiting
        if full or (self._waiting and self._bytes + call.size_bytes > _WAITING_BYTES):
            self._book.skipped()
            self._metrics.decisions.labels(call.verb, "skipped").inc()
            return
        self._waiting.append(call)
        self._bytes += call.size_bytes
        self._news.set()

    async def run(self) -> None:
        """Judge queued calls until cancelled."""
        while True:
            await self._news.wait()
            await self._quiet()
            if not self._waiting:
                self._news.clear()
                continue
            call = self._waiting.popleft()
            self._bytes -= call.size_bytes
            self._free.clear()
            try:
                await self._compare(call)
            finally:
                self._judged_at = time.monotonic()
                self._free.set()

    async def _quiet(self) -> None:
        """Wait until no request came for a moment, so that requests have the interpreter to themselves."""
        while True:
            await self._idle.wait()
            now = time.monotonic()
            left = self._asked_at + _QUIET_SECONDS - now
            # A request may have arrived between the event and this check.
            if self._idle.is_set() and (left <= 0 or now > self._judged_at + _SELDOM_SECONDS):
                return
            await asyncio.sleep(max(left, 0))

    async def close(self) -> None:
        """End the candidate's thread and its sources."""
        self._let_go(self._understudy, forget=True)
        self._options = None
        if self._workers is not None:
            self._workers.stop()
        self._free.set()
        await asyncio.gather(*self._ending)

    def report(self) -> ShadowReport:
        """The candidate's report."""
        understudy, options = self._understudy, self._options
        if understudy is None or options is None:
            return structs.replace(NO_SHADOW, problem=self.problem())
        return self._book.report(
            candidate=understudy.candidate.file,
            generation=understudy.number,
            live_generation=understudy.live.number,
            policies=[policy.name for policy in understudy.policies],
            problem=self.problem() or understudy.problem,
            sample_ratio=options.sample_ratio,
            waiting=len(self._waiting),
            sources=dict(understudy.sources.problems()),
        )

    async def _compare(self, call: Precedent) -> None:
        understudy, workers, book = self._understudy, self._workers, self._book
        if understudy is None or workers is None:
            return
        difference: Difference | None = None
        pod, problem, seconds = "", "", 0.0
        try:
            question = await call.question(workers)
            pod = question.pod.key
            readings = await understudy.readings(question.pod, question.nodes.names, call.readings)
            policies = understudy.policies_for(question.pod)
            work = partial(judge_again, policies, call, question, readings)
            difference, seconds = await workers.run(work, optional=understudy.names)
        except (CandidateFailed, RequestOverrun, WireError) as error:
            problem = str(error)
        except Exception as error:
            log.exception("shadow: this is a bug in Bayplan")
            problem = f"internal error: {type(error).__name__}"
        # Another candidate or live generation is compared by now: drop this result.
        if book is not self._book:
            return
        if difference is None:
            book.failed(problem)
            self._metrics.decisions.labels(call.verb, "failed").inc()
            self._warnings.warn(log, problem, f"shadow {call.verb} {pod}: {problem}", pod=pod)
            return
        book.compared(call.verb, pod, difference, decision=call.number)
        self._metrics.compared(call.verb, difference, seconds=seconds)

    def _let_go(self, before: Understudy | None, *, forget: bool) -> None:
        """Drop queued calls; the old candidate ends when its call under way has ended."""
        self._understudy = None
        self._waiting.clear()
        self._bytes = 0
        if before is not None:
            task = asyncio.create_task(self._end(before, forget=forget))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def _end(self, understudy: Understudy, *, forget: bool) -> None:
        await self._free.wait()
        await understudy.end(forget=forget)

    def _renew_workers(self) -> None:
        """A new thread for another candidate, which must not suffer from stuck hooks of the last one."""
        if self._workers is not None:
            self._workers.stop()
        self._workers = Workers(
            size=1,
            policy_seconds=self._limits.policy_seconds,
            request_seconds=self._limits.request_seconds,
            stuck_limit=self._limits.stuck_threads,
        )
