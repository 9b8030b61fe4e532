"""Notes are annotations on a Lease by which servers agree when to hand it over.

Each note is the name of a server, so that a note left behind in an earlier term means nothing. Notes only say
when to hand over; the holder is in the Lease's spec alone.
"""

import logging
from dataclasses import dataclass, fields

import msgspec

from bayplan.client.errors import ApiError
from bayplan.client.lease import Lease, LeaseApi, LeaseSpec, micro_time

log = logging.getLogger(__name__)

_PICK_UP_SECONDS = 2
"""The duration of a Lease that is handed over: if the successor has died, others need not wait for long."""
_TRIES = 3


@dataclass(frozen=True)
class Notes:
    """The notes on a Lease; ``""`` for a note that is not there."""

    standby: str = ""
    """A server that could take over."""
    leaving: str = ""
    """The holder, if it is about to shut down."""
    successor: str = ""
    """The next holder; calls to it wait until the Lease is its own."""
    asked: str = ""
    """The successor, once it has calls waiting."""

    @classmethod
    def of(cls, lease: Lease) -> "Notes":
        """The notes of the present term."""
        there = lease.metadata.get("annotations") or {}
        notes = cls(**{each.name: there.get(_key(each.name), "") for each in fields(cls)})
        return notes if notes.leaving and notes.leaving == lease.holder else cls(standby=notes.standby)

    def on(self, lease: Lease) -> Lease:
        """The Lease with these notes; annotations of other software stay."""
        ours = {_key(each.name): getattr(self, each.name) for each in fields(self)}
        there = lease.metadata.get("annotations") or {}
        annotations = {key: text for key, text in {**there, **ours}.items() if key not in ours or text}
        metadata = {key: value for key, value in lease.metadata.items() if key != "annotations"}
        if annotations:
            metadata["annotations"] = annotations
        return msgspec.structs.replace(lease, metadata=metadata)


async def write_notes(api: LeaseApi, lease: Lease, notes: Notes) -> bool:
    """Write notes on another server's Lease; false if the Lease has changed meanwhile."""
    try:
        await api.update(notes.on(lease), lease.spec)
    except ApiError as error:
        if error.status not in (404, 409):
            raise
        return False
    return True


async def give_away(api: LeaseApi, lease: Lease) -> None:
    """Write the successor into our Lease, or nobody; once sent, the Lease is no longer ours."""
    holder = lease.holder
    for _ in range(_TRIES):
        if lease.holder != holder:
            return
        successor = Notes.of(lease).successor
        # client-go releases a Lease the same way: no holder, a duration of one second.
        spec = LeaseSpec(
            holder_identity="",
            lease_duration_seconds=1,
            lease_transitions=lease.spec.lease_transitions,
        )
        if successor:
            now = micro_time()
            spec = LeaseSpec(successor, _PICK_UP_SECONDS, now, now, (spec.lease_transitions or 0) + 1)
        try:
            await api.update(Notes().on(lease), spec)
        except ApiError as error:
            if error.status != 409:
                raise
            lease = await api.read()
        else:
            log.info("lease %s/%s goes to %s", api.namespace, api.name, successor or "whoever is next")
            return


def _key(note: str) -> str:
    return f"bayplan.dev/{'successor-asked' if note == 'asked' else note}"
