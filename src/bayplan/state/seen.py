"""Another server's Lease as this server saw it, to tell whether its holder may still be alive.

Clocks of two machines are never compared: what counts is how long, by our own clock, the Lease has not
changed.
"""

from dataclasses import dataclass

from bayplan.client.lease import Lease
from bayplan.state.notes import Notes


@dataclass(frozen=True)
class Seen:
    """A Lease, and the time, by our clock, at which we first saw this write of its holder."""

    lease: Lease
    at: float

    def left(self, now: float) -> float:
        """For how many seconds the holder may still count on the Lease."""
        return self.at + (self.lease.spec.lease_duration_seconds or 0) - now

    def moved(self, lease: Lease) -> bool:
        """Whether the holder has written the Lease since; notes of other servers do not count."""
        if self.lease.spec != lease.spec:
            return True
        # A holder whose wall clock stands still writes an equal spec.
        return self.lease != lease and Notes.of(self.lease) == Notes.of(lease)

    def newer_than(self, lease: Lease) -> bool:
        """Whether ``lease`` is older than this one, since it was restored from a backup."""
        ours, theirs = (str(each.metadata.get("resourceVersion", "")) for each in (self.lease, lease))
        return ours.isdigit() and theirs.isdigit() and int(ours) > int(theirs)
