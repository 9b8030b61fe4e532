"""Who has to go where too many are connected: whoever has kept us waiting for the longest.

A newcomer that was refused instead could be kubelet or kube-scheduler, and those inside may be many that
never say a word.
"""

from collections.abc import Iterable
from typing import Protocol, TypeVar

from bayplan.runtimes.limits import Limits


class Guest(Protocol):
    """A connection."""

    @property
    def asked(self) -> bool:
        """Whether a request of it was answered."""
        ...

    @property
    def waits_since(self) -> float | None:
        """Since when its caller has to send or to read something; ``None`` while an answer is made."""
        ...


G = TypeVar("G", bound=Guest)


def longest_waiting(guests: Iterable[G]) -> G | None:
    """The one to close for a newcomer, one that never asked anything if there is any; ``None`` for nobody."""
    waiting = [(guest.asked, guest.waits_since, guest) for guest in guests if guest.waits_since is not None]
    return min(waiting, key=lambda each: each[:2])[2] if waiting else None


def too_many(limits: Limits, *, closed: Guest | None, hint: str) -> str:
    """What the log says of it."""
    done = "more are refused" if closed is None else "the one that says nothing for longest goes for the next"
    return f"{limits.max_connections} connections are open, {done}: {hint}"
