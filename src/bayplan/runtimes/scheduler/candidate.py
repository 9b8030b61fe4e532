"""The candidate configuration of a scheduler: its policies, combined with a profile for each scheduler name.

Of the candidate's ``scheduler`` section only the profiles count; for a scheduler name that it does not have,
the live profile is used.
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
    """Dry-run the policies of a scheduler, and list their problems; `ConfigError` for invalid profiles."""
    profiles_from(loaded)
    return [f"{where}{problem}" for problem in rehearse(loaded.policies, pods_known=True)]


SCHEDULER_COUNTED = COUNTED | {"scheduler"}
"""The sections of a candidate's file that a scheduler uses."""
load_scheduler_candidate = partial(load_candidate, check=check, counted=SCHEDULER_COUNTED)
"""Loads a candidate, and dry-runs it as the policies of a scheduler."""


def candidate_options(live: Loaded, candidate: Candidate) -> ShadowOptions:
    """The candidate with a profile for each of our schedulers, and the live settings for it."""
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
    """The entry with an absolute path to its file."""
    file = entry.kube_scheduler_config
    return msgspec.structs.replace(
        entry, kube_scheduler_config=str((live.base / file).absolute()) if file else ""
    )
