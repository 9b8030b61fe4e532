"""Threads that run policies, each hook with a deadline.

Policies are other people's code: they may loop or block. So they run off the event loop. A hook that overruns
is given up: its thread is abandoned and replaced, and the request is tried again without that policy, whose
``failurePolicy`` then answers for it.
"""

import asyncio
import contextvars
import ctypes
import itertools
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from typing import Generic, TypeVar

from bayplan.authoring.raised import safe_text
from bayplan.authoring.registry import Hook
from bayplan.engine.guard import Attempt, Failure, Interrupted, overrun
from bayplan.runtimes.forked import end_child
from bayplan.runtimes.one_core import OneCore

T = TypeVar("T")
log = logging.getLogger(__name__)

_numbers = itertools.count(1)
# A policy counts as unhealthy for so long after an overrun, even if its thread comes back at once.
_UNHEALTHY_SECONDS = 60.0
# How long a busy thread keeps the interpreter while others wait for it. Python's own 5 ms, a dozen times for
# one answer and with several busy policies each time, add up to more than the second that a kubelet waits.
_TURN_SECONDS = 0.001


class RequestOverrun(Exception):
    """The whole request took too long, whichever hook was running."""


class _Job(Generic[T]):
    """One attempt at a request, handed to a thread."""

    def __init__(self, work: Callable[[Attempt], T], attempt: Attempt, *, deadline: float) -> None:
        self.attempt = attempt
        self.deadline = deadline
        self.thread: _Worker | None = None
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._result: T | None = None
        self._error: Exception | None = None
        # Released when the job has ended. A bare lock, since every request waits on one.
        self._busy = threading.Lock()
        self._busy.acquire()
        self._wake: asyncio.Future[None] | None = None

    def ends_within(self, seconds: float) -> bool:
        """Block the calling thread for at most ``seconds``; whether the job has ended then."""
        if not self._busy.acquire(timeout=seconds):
            return False
        self._busy.release()
        return True

    @property
    def ended(self) -> bool:
        """Whether the job has ended."""
        return not self._busy.locked()

    async def wait(self, seconds: float) -> bool:
        """Await the job's end for at most ``seconds``; whether the job has ended then."""
        if self._wake is None:
            self._wake = self._loop.create_future()
        # Checked after the future is set: a thread that ends the job later sees the future.
        if not self.ended:
            await asyncio.wait({self._wake}, timeout=seconds)
        return self.ended

    def outcome(self) -> T:
        """The result of a job that has ended, or its exception; to be called once."""
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                # The error refers to this frame and so to the request. If the frame referred to the error
                # too, the request's memory would wait for the garbage collector.
                del error
        return self._result  # type: ignore[return-value]

    def run(self) -> None:
        try:
            # A context of its own: a context variable set for one pod must not leak to the next.
            result = contextvars.copy_context().run(self._work, self.attempt)
        except Interrupted:
            raise
        except Exception as error:
            self._settle(error=error)
        except BaseException as error:
            # Not every library raises an Exception (a Rust panic does not), and the thread must survive.
            self._settle(error=RuntimeError(f"{type(error).__name__} got past the hook: {safe_text(error)}"))
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
            # The thread came back from a long loop after the server had stopped.
            log.debug("a policy thread finished after the event loop was closed")


def _wake(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)


class _JobQueue:
    """The queue between jobs and threads; the thread that became idle last gets the next job.

    Its caches are warm: with threads in rotation, each of four had cold caches.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: deque[_Job[object]] = deque()
        self._idle: list[_Worker] = []
        self._closed = False

    def put(self, job: "_Job[object]", *, beside: OneCore | None = None) -> None:
        """Give a job to an idle thread, on the caller's core if ``beside`` is given; or queue it."""
        with self._lock:
            if not self._idle:
                self._jobs.append(job)
                return
            worker = self._idle.pop()
        if beside is not None:
            beside.gather(worker.native_id)
        worker.give(job)

    def next_for(self, worker: "_Worker") -> "_Job[object] | None":
        """The job that has waited longest; ``None`` if the thread must wait for `give`."""
        with self._lock:
            if self._jobs:
                return self._jobs.popleft()
            if not self._closed:
                self._idle.append(worker)
                return None
        worker.give(None)
        return None

    def close(self) -> None:
        """Let idle threads end."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.give(None)


class _Worker(threading.Thread):
    """A thread that runs one job after another until the queue closes or the thread is abandoned."""

    def __init__(self, queue: _JobQueue) -> None:
        super().__init__(name=f"bayplan-policy-{next(_numbers)}", daemon=True)
        self._queue = queue
        self._lock = threading.Lock()
        self._waiting = threading.Lock()
        self._waiting.acquire()
        self._given: _Job[object] | None = None
        self._job: _Job[object] | None = None
        self._abandoned = False

    def give(self, job: "_Job[object] | None") -> None:
        """Hand a job to this waiting thread; ``None`` ends the thread."""
        self._given = job
        self._waiting.release()

    def run(self) -> None:
        try:
            while not self._abandoned:
                job = self._queue.next_for(self)
                if job is None:
                    # Even if the queue has closed meanwhile: it may have given a job before.
                    self._waiting.acquire()
                    job, self._given = self._given, None
                if job is None:
                    return
                with self._lock:
                    self._job = job
                job.thread = self
                # After the deadline the caller has gone, and nothing would watch the hooks.
                if time.monotonic() < job.deadline:
                    job.run()
                    end_child()
                # From here on the thread cannot be abandoned, and so not be interrupted while it is idle.
                with self._lock:
                    self._job = None
                # A thread that idles for hours must not keep a request and its answer in memory.
                del job
        except Interrupted:
            log.debug("%s was interrupted", self.name)

    def abandon(self, job: "_Job[T]") -> bool:
        """Abandon the thread; False if it has finished the job already.

        Raises `Interrupted` in it, which ends a loop in Python, though not one in C.
        """
        with self._lock:
            if self._job is not job or self._abandoned or self.ident is None:
                return False
            self._abandoned = True
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self.ident), ctypes.py_object(Interrupted)
            )
        return True


class Workers:
    """A few threads for policies, with deadlines."""

    def __init__(
        self, *, size: int = 4, policy_seconds: float, request_seconds: float, stuck_limit: int
    ) -> None:
        self._queue = _JobQueue()
        self._policy_seconds = policy_seconds
        self._request_seconds = request_seconds
        self._stuck_limit = stuck_limit
        self._stuck: dict[_Worker, Hook] = {}
        self._overruns: dict[str, int] = {}
        self._overran: dict[str, tuple[float, Hook]] = {}
        self._threads = [self._start() for _ in range(size)]
        self._core = OneCore()
        sys.setswitchinterval(_TURN_SECONDS)

    async def run(
        self,
        work: Callable[[Attempt], T],
        *,
        optional: Collection[str] = (),
        patience_seconds: float = 0.0,
        since: float | None = None,
    ) -> T:
        """Run ``work`` in a thread; each attempt leaves out the policies that overran in earlier ones.

        ``optional`` policies change no answer: after an overrun they are left out for a while, so that not
        every request waits for them. With ``patience_seconds`` the event loop blocks until the work is done,
        for at most so long: threads that share an interpreter take turns, and each switch costs more than a
        short wait. ``since``, by `time.monotonic`, is when the request arrived, if that is not now.
        """
        deadline = (time.monotonic() if since is None else since) + self._request_seconds
        given_up = self._resting(optional) | self._hopeless()
        while True:
            job = _Job(work, Attempt(given_up=given_up), deadline=deadline)
            beside = self._core if patience_seconds else None
            self._queue.put(job, beside=beside)  # type: ignore[arg-type]
            if patience_seconds and job.ends_within(patience_seconds):
                return job.outcome()
            self._core.spread()
            late = await self._wait(job)
            if late is None:
                return job.outcome()
            if not self._abandon(job, late):
                # The hook has just come back.
                while not await job.wait(self._policy_seconds):
                    pass
                return job.outcome()
            given_up = {**given_up, late.policy: overrun(late, self._policy_seconds)}

    def stuck(self) -> list[Hook]:
        """The hooks that overran and whose threads have not come back."""
        self._stuck = {thread: hook for thread, hook in self._stuck.items() if thread.is_alive()}
        return list(self._stuck.values())

    def overruns(self) -> dict[str, int]:
        """How often each policy overran."""
        return dict(self._overruns)

    def unhealthy(self) -> set[str]:
        """Policies that overran within `_UNHEALTHY_SECONDS`, or still hold a thread."""
        recent = time.monotonic() - _UNHEALTHY_SECONDS
        return {hook.policy for hook in self.stuck()} | {
            policy for policy, (at, _) in self._overran.items() if at > recent
        }

    def check(self) -> str:
        """Liveness check: only a restart gets rid of too many stuck threads."""
        stuck = self.stuck()
        if len(stuck) < self._stuck_limit:
            return ""
        names = ", ".join(sorted({hook.title for hook in stuck}))
        return f"{len(stuck)} policy threads are stuck, in {names}"

    def stop(self) -> None:
        """Let idle threads end; stuck ones do not keep the process alive."""
        self._queue.close()

    def _start(self) -> _Worker:
        thread = _Worker(self._queue)
        thread.start()
        return thread

    def _resting(self, optional: Collection[str]) -> dict[str, Failure]:
        """The optional policies that overran within `_UNHEALTHY_SECONDS`."""
        recent = time.monotonic() - _UNHEALTHY_SECONDS
        found = {policy: self._overran[policy] for policy in optional if policy in self._overran}
        return {
            policy: overrun(hook, self._policy_seconds) for policy, (at, hook) in found.items() if at > recent
        }

    def _hopeless(self) -> dict[str, Failure]:
        """The policies that hold stuck threads, once these are too many: a call could lose another thread."""
        stuck = self.stuck()
        if len(stuck) < self._stuck_limit:
            return {}
        return {hook.policy: overrun(hook, self._policy_seconds) for hook in stuck}

    async def _wait(self, job: "_Job[T]") -> Hook | None:
        """Await the job: ``None`` if it is done, or the hook that overran; else `RequestOverrun`."""
        while True:
            attempt = job.attempt
            hook, since = attempt.hook, attempt.since
            now = time.monotonic()
            if hook is not None and now - since >= self._policy_seconds and attempt.hook is hook:
                return hook
            if now >= job.deadline:
                self._abandon(job, job.attempt.hook)
                raise RequestOverrun(f"the request took longer than {self._request_seconds:.1f} s")
            due = since + self._policy_seconds if hook is not None else now + self._policy_seconds
            if await job.wait(max(0.001, min(due, job.deadline) - now)):
                return None

    def _abandon(self, job: "_Job[T]", hook: Hook | None) -> bool:
        """Abandon and replace the thread that runs the job; False if no thread runs it."""
        thread = job.thread
        if thread is None or not thread.abandon(job):
            return False
        self._threads.remove(thread)
        self._threads.append(self._start())
        if hook is None:
            return True
        self._stuck[thread] = hook
        seconds = time.monotonic() - job.attempt.since
        # Under its own limit the hook is not to blame: the request's time was over.
        if seconds >= self._policy_seconds:
            self._overruns[hook.policy] = self._overruns.get(hook.policy, 0) + 1
            self._overran[hook.policy] = time.monotonic(), hook
            log.error("%s: still running after %.1f s; its thread was replaced", hook.title, seconds)
        return True
