"""An executor with daemon threads, started when needed, up to a limit.

Python's own pool waits for its threads when the program ends: with one hanging call, as on a lost file
system, the program never ends. Daemon threads end with the program, whatever they are doing.
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# An idle thread ends after this time.
_IDLE_SECONDS = 30.0


class DaemonThreads(Executor):
    """Runs each call in a thread; above the limit, calls wait for their turn."""

    def __init__(self, name: str, *, limit: int) -> None:
        self.limit = limit
        """How many calls may run at once."""
        self._name = name
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._changed = threading.Condition()
        self._there = 0
        self._idle = 0
        self._closed = False

    @property
    def full(self) -> bool:
        """Whether as many calls run as there may be threads."""
        with self._changed:
            return self._there - self._idle >= self.limit

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Call ``fn`` as soon as a thread is free; until then the future can be cancelled."""
        future: Future[T] = Future()
        with self._changed:
            if self._closed:
                raise RuntimeError("no new calls: these threads were told to end")
            # If all threads hang, cancelled calls would be kept for ever.
            while self._waiting and self._waiting[0][0].cancelled():
                self._waiting.popleft()
            self._waiting.append((future, partial(fn, *args, **kwargs)))
            if len(self._waiting) <= self._idle:
                self._changed.notify()
            elif self._there < self.limit:
                self._start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls. Never waits, even with ``wait``, since a call may hang."""
        del wait, cancel_futures
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _start(self) -> None:
        thread = threading.Thread(target=self._work, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # The system allows no more threads: an existing one takes the call when it is free.
            if not self._there:
                self._waiting.pop()
                raise
        else:
            self._there += 1

    def _work(self) -> None:
        while (call := self._next()) is not None:
            _run(*call)
            # Do not keep the call's arguments alive until the next call.
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
