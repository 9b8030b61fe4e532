"""What cannot be changed while the server runs: where it listens, and which cluster it serves."""

import msgspec

from bayplan.config.flags import Loaded
from bayplan.config.v1 import Section
from bayplan.engine.commit import commits

# Of the extender, what the next answer can be given with.
_CHANGEABLE = frozenset({"observe", "kubeSchedulerVersion"})


def needs_restart(old: Loaded, new: Loaded) -> list[str]:
    """The keys that are different, and cannot be without a restart."""
    found = _different(old.config.cluster, new.config.cluster, "cluster")
    found += [
        key
        for key in _different(old.config.extender, new.config.extender, "extender")
        if key.partition(".")[2] not in _CHANGEABLE
    ]
    live = new.config.cluster.source in ("kubeconfig", "in-cluster")
    if live and commits(new.policies) and not commits(old.policies):
        # The pods that are being bound, and the Lease, belong to a server that was started for it.
        found.append("policies, so that one checks or hands out at bind, and none did before")
    return found


def _different(old: Section, new: Section, name: str) -> list[str]:
    before, after = msgspec.structs.asdict(old), msgspec.structs.asdict(new)
    names = {field.name: field.encode_name for field in msgspec.structs.fields(old)}
    return [f"{name}.{names[key]}" for key in before if before[key] != after[key]]
