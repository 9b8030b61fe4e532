"""Work for a policy thread that remembers its last attempt.

`Workers` may run work several times, and returns only its result. Traces and recordings also need the
attempt, which says which hooks ran and when.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from bayplan.engine.guard import Attempt

T = TypeVar("T")


class Noted(Generic[T]):
    """Work, and the last attempt that ran it."""

    def __init__(self, work: Callable[[Attempt], T]) -> None:
        self._work = work
        self._attempt: Attempt | None = None

    @property
    def attempt(self) -> Attempt:
        """The last attempt; an empty one if the work never ran."""
        return self._attempt or Attempt()

    def __call__(self, attempt: Attempt) -> T:
        self._attempt = attempt
        return self._work(attempt)
