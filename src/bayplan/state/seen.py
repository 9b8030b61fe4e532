"""Somebody else's Lease, and whether its holder is still there, as far as one can see.

Clocks of two machines are never compared: what counts is for how long we, by our own clock, have seen it so.
"""

from dataclasses import dataclass

from bayplan.client.lease import Lease
from bayplan.state.notes import Notes


@dataclass(frozen=True)
class Seen:
    """A Lease, and when we first saw that its holder had written it."""

    lease: Lease
    at: float

    def left(self, now: float) -> float:
        """How long its holder may still believe in it."""
        return self.at + (self.lease.spec.lease_duration_seconds or 0) - now

    def moved(self, lease: Lease) -> bool:
        """Whether its holder has written it since; notes of others are no sign of him."""
        if self.lease.spec != lease.spec:
            return True
        # A wall clock that stands still writes the same time again.
        return self.lease != lease and Notes.of(self.lease) == Notes.of(lease)

    def newer_than(self, lease: Lease) -> bool:
        """Whether it was written after that one, which somebody has brought back from a backup."""
        ours, theirs = (str(each.metadata.get("resourceVersion", "")) for each in (self.lease, lease))
        return ours.isdigit() and theirs.isdigit() and int(ours) > int(theirs)
