"""What cannot be changed while the server runs: where it listens, and which cluster it serves."""

import msgspec

from bayplan.config.flags import DEFAULT_SCHEDULER_NAME, Loaded
from bayplan.config.v1 import LIVE, SchedulerSection, Section
from bayplan.engine.commit import commits

# Of the extender, what the next answer can be given with.
_CHANGEABLE = frozenset({"observe", "kubeSchedulerVersion", "answer"})
_EVERYWHERE = ("cluster", "page", "journal", "record", "tracing")


def needs_restart(started: Loaded, new: Loaded) -> list[str]:
    """The keys that are not what an extender was started with, and must be."""
    found = _everywhere(started, new)
    found += [
        key
        for key in _different(started.config.extender, new.config.extender, "extender")
        if key.partition(".")[2] not in _CHANGEABLE
    ]
    live = new.config.cluster.source in LIVE
    if live and commits(new.policies) and not commits(started.policies):
        # The pods that are being bound, and the Lease, belong to a server that was started for it.
        found.append("policies, so that one checks or hands out at bind, and none did before")
    return found


def scheduler_needs_restart(started: Loaded, new: Loaded) -> list[str]:
    """The keys that are not what a scheduler was started with, and must be."""
    before, after = started.config.scheduler, new.config.scheduler
    found = _everywhere(started, new)
    found += [key for key in _different(before, after, "scheduler") if key != "scheduler.profiles"]
    election = after.leader_election
    if election.leader_elect and not election.resource_name and _first(before) != _first(after):
        found.append(
            "scheduler.profiles, so that another schedulerName is the first, which the Lease is called by"
            " (or give leaderElection.resourceName)"
        )
    return found


def _first(section: SchedulerSection) -> str:
    return section.profiles[0].scheduler_name if section.profiles else DEFAULT_SCHEDULER_NAME


def _everywhere(started: Loaded, new: Loaded) -> list[str]:
    return [
        key
        for name in _EVERYWHERE
        for key in _different(getattr(started.config, name), getattr(new.config, name), name)
    ]


def _different(old: Section, new: Section, name: str) -> list[str]:
    before, after = msgspec.structs.asdict(old), msgspec.structs.asdict(new)
    names = {field.name: field.encode_name for field in msgspec.structs.fields(old)}
    return [f"{name}.{names[key]}" for key in before if before[key] != after[key]]
