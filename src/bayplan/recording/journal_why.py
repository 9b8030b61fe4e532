"""Explains a pod's decisions from a journal on disk, without the server."""

from pathlib import Path

import msgspec

from bayplan.engine.why import Why, bound_node, explain
from bayplan.recording.journal_reader import read_journal
from bayplan.wire.scale import to_wire


def why_from_file(path: Path, key: str, *, weight: float) -> tuple[Why | None, list[str]]:
    """The decisions about the pod ``namespace/name`` in a journal's files, and warnings about the files."""
    found = read_journal(path, key)
    kept = list(reversed(found.kept))
    entries = [each.entry for each in kept]
    uid = entries[0].pod.uid if entries else ""
    filters = (each for each in kept if each.entry.verb == "filter" and each.entry.pod.uid == uid)
    last = next(filters, None)
    every = last.entry.names if last is not None and last.cluster else None
    schedules = last.schedules if last is not None else any(each.schedules for each in kept)
    chosen = bound_node(entries) or found.placed.get(uid, "")
    why = explain(
        entries, every_node=every, chosen=chosen, to_wire=None if schedules else to_wire, weight=weight
    )
    return (None if why is None else msgspec.structs.replace(why, pods_seen=False)), found.warnings
