"""Threads that nobody waits for at the end, started when needed, up to a limit.

Python's own pool waits for its threads when the program ends: with one call that hangs, as on a file system
that is gone, the program never does. These end with the program, whatever they are doing.
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# A thread that has had nothing to do for so long ends.
_IDLE_SECONDS = 30.0


class DaemonThreads(Executor):
    """Runs calls, one in each thread; more calls than threads wait for their turn."""

    def __init__(self, name: str, *, limit: int) -> None:
        self.limit = limit
        """How many calls may be under way at once."""
        self._name = name
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._changed = threading.Condition()
        self._there = 0
        self._idle = 0
        self._closed = False

    @property
    def full(self) -> bool:
        """Whether every thread that it may have is in a call."""
        with self._changed:
            return self._there - self._idle >= self.limit

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Call it as soon as there is a thread; whoever gives up waiting before that can cancel it."""
        future: Future[T] = Future()
        with self._changed:
            if self._closed:
                raise RuntimeError("no new calls: these threads were told to end")
            # Where all threads hang, those that were given up would be kept for ever.
            while self._waiting and self._waiting[0][0].cancelled():
                self._waiting.popleft()
            self._waiting.append((future, partial(fn, *args, **kwargs)))
            if len(self._waiting) <= self._idle:
                self._changed.notify()
            elif self._there < self.limit:
                self._start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls. It never waits, whatever is asked for: a call may hang."""
        del wait, cancel_futures
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _start(self) -> None:
        thread = threading.Thread(target=self._work, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # The system gives no more of them: one that is there takes the call when it is free.
            if not self._there:
                self._waiting.pop()
                raise
        else:
            self._there += 1

    def _work(self) -> None:
        while (call := self._next()) is not None:
            _run(*call)
            # What it was about must not be kept until the next one.
            del call

    def _next(self) -> "tuple[Future[Any], Callable[[], Any]] | None":
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._waiting or self._closed, _IDLE_SECONDS)
            self._idle -= 1
            if self._waiting:
                return self._waiting.popleft()
            self._there -= 1
            return None


def _run(future: "Future[Any]", call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
