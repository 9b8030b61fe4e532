"""Work for a policy thread that remembers with which attempt it was done.

`Workers` may try it several times, and hands out what came of it alone: whoever tells a trace or a recording
which hooks ran, and when, asks the work itself.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from bayplan.engine.guard import Attempt

T = TypeVar("T")


class Noted(Generic[T]):
    """Work, and the last attempt at it."""

    def __init__(self, work: Callable[[Attempt], T]) -> None:
        self._work = work
        self._attempt: Attempt | None = None

    @property
    def attempt(self) -> Attempt:
        """The last one; an empty one where it was not even tried."""
        return self._attempt or Attempt()

    def __call__(self, attempt: Attempt) -> T:
        self._attempt = attempt
        return self._work(attempt)
