"""A candidate beside a scheduler: its policies, with the profile that the pods are judged by.

Of its ``scheduler`` section the profiles count; for pods of a scheduler that it does not name, the live
profile is taken.
"""

from dataclasses import replace
from functools import partial

import msgspec

from bayplan.config.candidate import COUNTED, Candidate, load_candidate
from bayplan.config.flags import DEFAULT_SCHEDULER_NAME, Loaded
from bayplan.config.rehearse import rehearse
from bayplan.config.v1 import SchedulerProfileEntry
from bayplan.runtimes.scheduler.profiles import profiles_from
from bayplan.runtimes.shadow import ShadowOptions, shadow_options


def check(loaded: Loaded, *, where: str = "") -> list[str]:
    """What is wrong with policies of a scheduler; `ConfigError` for what can never work."""
    profiles_from(loaded)
    return [f"{where}{problem}" for problem in rehearse(loaded.policies, pods_known=True)]


SCHEDULER_COUNTED = COUNTED | {"scheduler"}
"""The parts of a candidate's file that a scheduler heeds."""
load_scheduler_candidate = partial(load_candidate, check=check, counted=SCHEDULER_COUNTED)
"""The candidate, dry-run as the policies of a scheduler are."""


def candidate_options(live: Loaded, candidate: Candidate) -> ShadowOptions:
    """The candidate with a profile for each of our schedulers, and how much of it is wanted."""
    profiles = profiles_from(beside(live, candidate.loaded))
    return shadow_options(live.config.shadow, candidate, profiles=profiles)


def beside(live: Loaded, candidate: Loaded) -> Loaded:
    """The candidate's configuration, for the pods of the live schedulers."""
    known = {entry.scheduler_name: entry for entry in candidate.config.scheduler.profiles}
    ours = live.config.scheduler.profiles or (SchedulerProfileEntry(scheduler_name=DEFAULT_SCHEDULER_NAME),)
    entries = tuple(known.get(entry.scheduler_name) or _found_from(entry, live) for entry in ours)
    scheduler = msgspec.structs.replace(candidate.config.scheduler, profiles=entries)
    return replace(candidate, config=msgspec.structs.replace(candidate.config, scheduler=scheduler))


def _found_from(entry: SchedulerProfileEntry, live: Loaded) -> SchedulerProfileEntry:
    """The entry with a path that leads to the file from anywhere."""
    file = entry.kube_scheduler_config
    return msgspec.structs.replace(
        entry, kube_scheduler_config=str((live.base / file).absolute()) if file else ""
    )
