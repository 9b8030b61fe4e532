"""Threads that run policies, and the clock that watches them.

Policies are other people's code: they may loop or block. They run off the event loop, each hook with
a deadline. A hook that overruns is given up: its thread is left behind and replaced, and the request
is tried again without that policy, whose ``failurePolicy`` then answers for it.
"""

import asyncio
import contextvars
import ctypes
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import Generic, TypeVar

from bayplan.authoring.registry import Hook
from bayplan.engine.guard import Attempt, Failure, Interrupted, overrun
from bayplan.runtimes.one_core import OneCore

T = TypeVar("T")
log = logging.getLogger(__name__)

_numbers = itertools.count(1)
# A policy that overran is called unhealthy for so long: its thread may be back in no time, it is not.
_UNHEALTHY_SECONDS = 60.0


class RequestOverrun(Exception):
    """The whole request took too long, whoever was at work."""


class _Job(Generic[T]):
    """One try at a request, on its way to a thread and back."""

    def __init__(self, work: Callable[[Attempt], T], attempt: Attempt, *, deadline: float) -> None:
        self.attempt = attempt
        self.deadline = deadline
        self.thread: _Worker | None = None
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._result: T | None = None
        self._error: Exception | None = None
        # Free when the job has ended: a bare lock, since this is on the way of every request.
        self._busy = threading.Lock()
        self._busy.acquire()
        self._wake: asyncio.Future[None] | None = None

    def ends_within(self, seconds: float) -> bool:
        """Whether it ends so soon; the calling thread does nothing else meanwhile."""
        if not self._busy.acquire(timeout=seconds):
            return False
        self._busy.release()
        return True

    @property
    def ended(self) -> bool:
        """Whether somebody has run it."""
        return not self._busy.locked()

    async def wait(self, seconds: float) -> bool:
        """Whether it has ended, after so long at the latest."""
        if self._wake is None:
            self._wake = self._loop.create_future()
        # Asked after the future is there: who ends it later sees the future.
        if not self.ended:
            await asyncio.wait({self._wake}, timeout=seconds)
        return self.ended

    def outcome(self) -> T:
        """What came of a job that has ended; to be asked once."""
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                # The error knows this frame and what was asked: if the frame knew the error, a request's
                # memory would wait for the garbage collector.
                del error
        return self._result  # type: ignore[return-value]

    def run(self) -> None:
        try:
            # A context of its own: what one pod sets must not be seen by the next.
            result = contextvars.copy_context().run(self._work, self.attempt)
        except Interrupted:
            raise
        except Exception as error:
            self._settle(error=error)
        except BaseException as error:
            # Not every library keeps to Exception (a panic in Rust does not): the thread must live on.
            self._settle(error=RuntimeError(f"{type(error).__name__} got past the hook: {error}"))
        else:
            self._settle(result=result)

    def _settle(self, *, result: T | None = None, error: Exception | None = None) -> None:
        self._result, self._error = result, error
        self._busy.release()
        if (wake := self._wake) is None:
            return
        try:
            self._loop.call_soon_threadsafe(_wake, wake)
        except RuntimeError:
            # A thread that came back from a long loop after the server had stopped.
            log.debug("a policy thread finished after the event loop was closed")


def _wake(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)


class _Desk:
    """Where jobs wait for threads, and threads for jobs. The thread that waited last goes first.

    It has its memory at hand: taking turns, each of four threads had to fetch its own anew.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: deque[_Job[object]] = deque()
        self._idle: list[_Worker] = []
        self._closed = False

    def put(self, job: "_Job[object]") -> None:
        """Give a job to a thread, or have it wait for one."""
        with self._lock:
            if not self._idle:
                self._jobs.append(job)
                return
            worker = self._idle.pop()
        worker.give(job)

    def next_for(self, worker: "_Worker") -> "_Job[object] | None":
        """The job that has waited longest; ``None`` where the thread has to wait for what it is given."""
        with self._lock:
            if self._jobs:
                return self._jobs.popleft()
            if not self._closed:
                self._idle.append(worker)
                return None
        worker.give(None)
        return None

    def close(self) -> None:
        """Let threads end that have nothing to do."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.give(None)


class _Worker(threading.Thread):
    """A thread that takes one job after another until it is told to stop or left behind."""

    def __init__(self, desk: _Desk) -> None:
        super().__init__(name=f"bayplan-policy-{next(_numbers)}", daemon=True)
        self._desk = desk
        self._lock = threading.Lock()
        self._waiting = threading.Lock()
        self._waiting.acquire()
        self._given: _Job[object] | None = None
        self._job: _Job[object] | None = None
        self._left_behind = False

    def give(self, job: "_Job[object] | None") -> None:
        """The next job of a thread that waits; ``None`` to end."""
        self._given = job
        self._waiting.release()

    def run(self) -> None:
        try:
            while not self._left_behind:
                job = self._desk.next_for(self)
                if job is None:
                    # Whether or not the desk has closed meanwhile: it may have given a job before.
                    self._waiting.acquire()
                    job, self._given = self._given, None
                if job is None:
                    return
                with self._lock:
                    self._job = job
                job.thread = self
                # Nobody waits any more after the deadline, so nobody would watch the hooks.
                if time.monotonic() < job.deadline:
                    job.run()
                # From here on it cannot be left behind, and so not be interrupted while it is idle.
                with self._lock:
                    self._job = None
                # A thread that waits for hours must not keep a request and its answer that long.
                del job
        except Interrupted:
            log.debug("%s was interrupted", self.name)

    def leave_behind(self, job: "_Job[T]") -> bool:
        """Give the thread up; False where it has finished the job and is at work for somebody else.

        It is thrown `Interrupted`, which ends a loop in Python, though not one in C.
        """
        with self._lock:
            if self._job is not job or self._left_behind or self.ident is None:
                return False
            self._left_behind = True
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self.ident), ctypes.py_object(Interrupted)
            )
        return True


class Workers:
    """A few threads for policies, with deadlines."""

    def __init__(
        self, *, size: int = 4, policy_seconds: float, request_seconds: float, stuck_limit: int
    ) -> None:
        self._desk = _Desk()
        self._policy_seconds = policy_seconds
        self._request_seconds = request_seconds
        self._stuck_limit = stuck_limit
        self._stuck: dict[_Worker, Hook] = {}
        self._overruns: dict[str, int] = {}
        self._overran: dict[str, tuple[float, Hook]] = {}
        self._threads = [self._start() for _ in range(size)]
        self._core = OneCore()

    async def run(
        self, work: Callable[[Attempt], T], *, optional: Collection[str] = (), patience_seconds: float = 0.0
    ) -> T:
        """Run ``work`` in a thread; policies that overrun are given up, one try after another.

        Those whose word changes nothing are ``optional``: where one overran, it is not waited for at every
        request, but left out for a while. With ``patience_seconds`` the event loop stands still until the
        work is done, for so long at the most: two threads that share one interpreter take turns, and each
        turn costs more than a short wait.
        """
        deadline = time.monotonic() + self._request_seconds
        given_up = self._resting(optional) | self._hopeless()
        while True:
            job = _Job(work, Attempt(given_up=given_up), deadline=deadline)
            if patience_seconds:
                self._core.gather(self._native())
            self._desk.put(job)  # type: ignore[arg-type]
            if patience_seconds and job.ends_within(patience_seconds):
                return job.outcome()
            self._core.spread(self._native())
            late = await self._wait(job)
            if late is None:
                return job.outcome()
            if not self._leave_behind(job, late):
                # It has just come back.
                while not await job.wait(self._policy_seconds):
                    pass
                return job.outcome()
            given_up = {**given_up, late.policy: overrun(late, self._policy_seconds)}

    def stuck(self) -> list[Hook]:
        """Hooks that overran and whose threads have not come back."""
        self._stuck = {thread: hook for thread, hook in self._stuck.items() if thread.is_alive()}
        return list(self._stuck.values())

    def overruns(self) -> dict[str, int]:
        """How often each policy overran."""
        return dict(self._overruns)

    def unhealthy(self) -> set[str]:
        """Policies that overran just now, or still hold a thread."""
        recent = time.monotonic() - _UNHEALTHY_SECONDS
        return {hook.policy for hook in self.stuck()} | {
            policy for policy, (at, _) in self._overran.items() if at > recent
        }

    def check(self) -> str:
        """A liveness check: too many lost threads are cured by a restart only."""
        stuck = self.stuck()
        if len(stuck) < self._stuck_limit:
            return ""
        names = ", ".join(sorted({hook.title for hook in stuck}))
        return f"{len(stuck)} policy threads are stuck, in {names}"

    def stop(self) -> None:
        """Let idle threads end; stuck ones do not keep the process alive."""
        self._desk.close()

    def _start(self) -> _Worker:
        thread = _Worker(self._desk)
        thread.start()
        return thread

    def _native(self) -> Iterator[int | None]:
        return (thread.native_id for thread in self._threads)

    def _resting(self, optional: Collection[str]) -> dict[str, Failure]:
        """Of these policies, those that overran just now."""
        recent = time.monotonic() - _UNHEALTHY_SECONDS
        found = {policy: self._overran[policy] for policy in optional if policy in self._overran}
        return {
            policy: overrun(hook, self._policy_seconds) for policy, (at, hook) in found.items() if at > recent
        }

    def _hopeless(self) -> dict[str, Failure]:
        """Policies that hold too many threads already: calling them again would only lose another."""
        stuck = self.stuck()
        if len(stuck) < self._stuck_limit:
            return {}
        return {hook.policy: overrun(hook, self._policy_seconds) for hook in stuck}

    async def _wait(self, job: "_Job[T]") -> Hook | None:
        """``None`` once the job is done, or the hook that overran; `RequestOverrun` at the deadline."""
        while True:
            attempt = job.attempt
            hook, since = attempt.hook, attempt.since
            now = time.monotonic()
            if hook is not None and now - since >= self._policy_seconds and attempt.hook is hook:
                return hook
            if now >= job.deadline:
                self._leave_behind(job, job.attempt.hook)
                raise RequestOverrun(f"the request took longer than {self._request_seconds:.1f} s")
            due = since + self._policy_seconds if hook is not None else now + self._policy_seconds
            if await job.wait(max(0.001, min(due, job.deadline) - now)):
                return None

    def _leave_behind(self, job: "_Job[T]", hook: Hook | None) -> bool:
        """Replace the thread that runs the job; False where none does any more, or yet."""
        thread = job.thread
        if thread is None or not thread.leave_behind(job):
            return False
        self._threads.remove(thread)
        self._threads.append(self._start())
        if hook is None:
            return True
        self._stuck[thread] = hook
        seconds = time.monotonic() - job.attempt.since
        # Less than its own time: the request's was over, and the hook is not to blame.
        if seconds >= self._policy_seconds:
            self._overruns[hook.policy] = self._overruns.get(hook.policy, 0) + 1
            self._overran[hook.policy] = time.monotonic(), hook
            log.error("%s: still running after %.1f s; its thread was replaced", hook.title, seconds)
        return True
