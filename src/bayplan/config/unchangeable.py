"""What cannot be changed while the server runs: where it listens, and which cluster it serves."""

import msgspec

from bayplan.config.flags import Loaded
from bayplan.config.v1 import Section
from bayplan.engine.commit import commits

# Of the extender, what the next answer can be given with.
_CHANGEABLE = frozenset({"observe", "kubeSchedulerVersion"})


def needs_restart(started: Loaded, new: Loaded) -> list[str]:
    """The keys that are not what the server was started with, and must be."""
    found = _different(started.config.cluster, new.config.cluster, "cluster")
    found += [
        key
        for key in _different(started.config.extender, new.config.extender, "extender")
        if key.partition(".")[2] not in _CHANGEABLE
    ]
    found += _different(started.config.page, new.config.page, "page")
    found += _different(started.config.journal, new.config.journal, "journal")
    found += _different(started.config.record, new.config.record, "record")
    found += _different(started.config.tracing, new.config.tracing, "tracing")
    live = new.config.cluster.source in ("kubeconfig", "in-cluster")
    if live and commits(new.policies) and not commits(started.policies):
        # The pods that are being bound, and the Lease, belong to a server that was started for it.
        found.append("policies, so that one checks or hands out at bind, and none did before")
    return found


def _different(old: Section, new: Section, name: str) -> list[str]:
    before, after = msgspec.structs.asdict(old), msgspec.structs.asdict(new)
    names = {field.name: field.encode_name for field in msgspec.structs.fields(old)}
    return [f"{name}.{names[key]}" for key in before if before[key] != after[key]]
