"""Notes on a Lease, by which servers agree when it changes hands.

Each note is the name of a server, so that one which was left behind in an earlier term means nothing. Notes
only say when to hand over: who holds the Lease is in its spec alone.
"""

import logging
from dataclasses import dataclass, fields

import msgspec

from bayplan.client.errors import ApiError
from bayplan.client.lease import Lease, LeaseApi, LeaseSpec, micro_time

log = logging.getLogger(__name__)

_PICK_UP_SECONDS = 2
"""For how long it is the successor's who does not renew it: one that died meanwhile is not waited for."""
_TRIES = 3


@dataclass(frozen=True)
class Notes:
    """What servers tell each other on a Lease; ``""`` where nothing is said."""

    standby: str = ""
    """One of those who could take over."""
    leaving: str = ""
    """The holder that is about to end."""
    successor: str = ""
    """Who is to hold it next; its calls wait until then."""
    asked: str = ""
    """The successor that has calls waiting."""

    @classmethod
    def of(cls, lease: Lease) -> "Notes":
        """Those of the present term."""
        there = lease.metadata.get("annotations") or {}
        notes = cls(**{each.name: there.get(_key(each.name), "") for each in fields(cls)})
        return notes if notes.leaving and notes.leaving == lease.holder else cls(standby=notes.standby)

    def on(self, lease: Lease) -> Lease:
        """The Lease with these notes, and with what others wrote there."""
        ours = {_key(each.name): getattr(self, each.name) for each in fields(self)}
        there = lease.metadata.get("annotations") or {}
        annotations = {key: text for key, text in {**there, **ours}.items() if key not in ours or text}
        metadata = {key: value for key, value in lease.metadata.items() if key != "annotations"}
        if annotations:
            metadata["annotations"] = annotations
        return msgspec.structs.replace(lease, metadata=metadata)


async def write_notes(api: LeaseApi, lease: Lease, notes: Notes) -> bool:
    """Write notes on somebody else's Lease; whether it had not changed meanwhile."""
    try:
        await api.update(notes.on(lease), lease.spec)
    except ApiError as error:
        if error.status not in (404, 409):
            raise
        return False
    return True


async def give_away(api: LeaseApi, lease: Lease) -> None:
    """Write the successor into our Lease, or nobody. Once that is sent, it is ours no more."""
    holder = lease.holder
    for _ in range(_TRIES):
        if lease.holder != holder:
            return
        successor = Notes.of(lease).successor
        # A Lease of one second and of nobody: as client-go gives it back.
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
