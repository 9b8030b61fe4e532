"""The policies for each scheduler name: those of a kube-scheduler profile, then the user's own."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bayplan.authoring.hooks import PolicyError
from bayplan.authoring.registry import Policy
from bayplan.config.flags import DEFAULT_SCHEDULER_NAME, Loaded
from bayplan.config.kube_scheduler import read_kube_scheduler_config
from bayplan.config.load import ConfigError, place
from bayplan.config.profile import Profile, read_profiles
from bayplan.config.v1 import SchedulerProfileEntry
from bayplan.engine.entering import one_order
from bayplan.kube.yaml import suggest
from bayplan.runtimes.needs import managed

Profiles = Mapping[str, tuple[Policy, ...]]


def profiles_from(loaded: Loaded) -> Profiles:
    """The policies for each scheduler name of the configuration."""
    return policies_of(whole_profiles(loaded))


def policies_of(profiles: Mapping[str, Profile]) -> Profiles:
    """The policies of each profile."""
    return {name: profile.policies for name, profile in profiles.items()}


def whole_profiles(loaded: Loaded) -> dict[str, Profile]:
    """The profile for each scheduler name of the configuration, with the user's policies added."""
    entries = loaded.config.scheduler.profiles or (
        SchedulerProfileEntry(scheduler_name=DEFAULT_SCHEDULER_NAME),
    )
    found: dict[str, Profile] = {}
    for entry in entries:
        if entry.scheduler_name in found:
            raise ConfigError(f"scheduler.profiles: two profiles for scheduler {entry.scheduler_name!r}")
        profile = _profile(entry, loaded.base)
        together = _together(profile.policies, loaded.policies)
        found[entry.scheduler_name] = replace(profile, policies=together)
    return found


def not_asked(loaded: Loaded) -> list[str]:
    """The extenders of the files that profiles are from: kube-scheduler asks them, and nobody does here."""
    files = dict.fromkeys(entry.kube_scheduler_config for entry in loaded.config.scheduler.profiles)
    found = []
    for file in filter(None, files):
        config, document = read_kube_scheduler_config(loaded.base / file)
        if config.extenders:
            who = ", ".join(extender.address for extender in config.extenders)
            found.append(
                f"{place(document, ('extenders',))}: `bayplan schedule` asks no extenders ({who}): what they"
                " refuse, prefer or hand out counts for nothing here; name policies that do it, and for an"
                " extender that is Bayplan those that it serves"
            )
    return found


def counted_twice(loaded: Loaded) -> list[str]:
    """The resources that policies hand out, and that a profile wants to see in the status of nodes too."""
    fits = [profile.fit for profile in whole_profiles(loaded).values() if profile.fit is not None]
    resources = sorted({units.resource for units in managed(loaded.policies)})
    found = [each for each in resources if not all(fit.ignores(each) for fit in fits)]
    return [
        f"{resource}: policies hand it out, and NodeResourcesFit counts it too: a node without it in its"
        f" status is refused (Insufficient {resource}); if your nodes do not have it there, name it under"
        " ignoredResources of NodeResourcesFit, in the file that --profile names"
        for resource in found
    ]


def _profile(entry: SchedulerProfileEntry, base: Path) -> Profile:
    """The profile of that name in the file, or the file's only profile; without a file, the default."""
    if not entry.kube_scheduler_config:
        return Profile.default(entry.scheduler_name)
    file = base / entry.kube_scheduler_config
    profiles = read_profiles(file)
    known = {profile.scheduler_name: profile for profile in profiles}
    found = known.get(entry.scheduler_name)
    if found is None and len(profiles) == 1:
        found = replace(profiles[0], scheduler_name=entry.scheduler_name)
    if found is None:
        hint = suggest(entry.scheduler_name, known)
        raise ConfigError(f"{file}: no profile for scheduler {entry.scheduler_name!r}{hint}")
    if found.left_out:
        raise ConfigError(
            f"{file}: profile {found.scheduler_name!r} has plugins that Bayplan does not know:"
            f" {', '.join(found.left_out)}; take them out, or name a policy of yours under `policies:`"
        )
    return found


def _together(theirs: Sequence[Policy], ours: Sequence[Policy]) -> tuple[Policy, ...]:
    names = {policy.name for policy in theirs}
    twice = [policy.name for policy in ours if policy.name in names]
    if twice:
        raise ConfigError(
            f"policy {twice[0]!r} has the name of one in kube-scheduler's profile, which judges already;"
            " give yours a `name` of its own"
        )
    together = (*theirs, *ours)
    try:
        one_order([policy for policy in together if not policy.shadow])
    except PolicyError as error:
        raise ConfigError(str(error)) from error
    return together
