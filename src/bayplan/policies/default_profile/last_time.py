"""What was worked out last time, while nothing that it was worked out from has changed."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class LastTime(Generic[T]):
    """Keeps one value, and the very objects that it comes from: snapshots share what did not change."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: tuple[tuple[Any, ...], T] | None = None

    def of(self, *origin: Any, work_out: Callable[[], T]) -> T:
        """The value for these objects; worked out unless they are those of the last time."""
        kept = self._kept
        if kept is not None and all(before is now for before, now in zip(kept[0], origin, strict=True)):
            return kept[1]
        value = work_out()
        # One assignment, so that a thread beside us sees all of it or nothing.
        self._kept = (origin, value)
        return value
