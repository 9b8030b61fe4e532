"""Chooses the connection to close when too many are open: the one that waits for its caller for longest.

Refusing the new connection instead could refuse kubelet or kube-scheduler, while the open ones may be idle.
"""

from collections.abc import Iterable
from typing import Protocol, TypeVar

from bayplan.runtimes.limits import Limits


class Guest(Protocol):
    """A connection."""

    @property
    def asked(self) -> bool:
        """Whether a request was answered on this connection."""
        ...

    @property
    def waits_since(self) -> float | None:
        """Since when the connection waits for its caller; ``None`` while it works on an answer."""
        ...


G = TypeVar("G", bound=Guest)


def longest_waiting(guests: Iterable[G]) -> G | None:
    """The connection to close for a new one, preferably one without a request so far; ``None`` for none."""
    waiting = [(guest.asked, guest.waits_since, guest) for guest in guests if guest.waits_since is not None]
    return min(waiting, key=lambda each: each[:2])[2] if waiting else None


def too_many(limits: Limits, *, closed: Guest | None, hint: str) -> str:
    """The warning for the log."""
    done = "more are refused" if closed is None else "the one that says nothing for longest goes for the next"
    return f"{limits.max_connections} connections are open, {done}: {hint}"
