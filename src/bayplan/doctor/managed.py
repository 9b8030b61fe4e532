"""``managedResources``: which pods an extender is asked about at all, and who counts what they ask for."""

from collections.abc import Iterator
from typing import Any

from bayplan.doctor.extender_entry import may_be_ours
from bayplan.doctor.finding import Finding
from bayplan.doctor.scheduler_file import Entry, Part, SchedulerFile, plugins_of
from bayplan.doctor.setting import Setting
from bayplan.doctor.traps_of_entries import (
    MANAGED_RESOURCE_IGNORED,
    MANAGED_RESOURCE_NAME,
    MANAGED_RESOURCE_TWICE,
    MANAGED_RESOURCE_UNCHECKED,
)
from bayplan.doctor.traps_of_policies import RESOURCE_NOT_ADVERTISED
from bayplan.install.resources import name_problem

_FIT = "NodeResourcesFit"


def check_managed_resources(file: SchedulerFile, setting: Setting) -> Iterator[Finding]:
    """Names that are none, resources of two extenders, resources that nobody counts."""
    owners: dict[str, Entry] = {}
    for entry in file.entries:
        for resource in entry.managed:
            yield from _one(file, entry, resource, setting)
            name = resource.text("name")
            if name and name in owners:
                what = f"{name} is managed by {owners[name].name} already"
                yield file.found(MANAGED_RESOURCE_TWICE, resource.at("name"), what)
            owners.setdefault(name, entry)
        yield from _counted_by_device(file, entry, setting)


def _one(file: SchedulerFile, entry: Entry, resource: Part, setting: Setting) -> Iterator[Finding]:
    name = resource.text("name")
    if problem := name_problem(name):
        yield file.found(MANAGED_RESOURCE_NAME, resource.at("name"), problem)
    if not resource.flag("ignoredByScheduler"):
        return
    at = resource.at("ignoredByScheduler")
    if not entry.text("filterVerb"):
        yield file.found(MANAGED_RESOURCE_UNCHECKED, at, f"nobody counts {name or 'the resource'}")
    else:
        counted = setting.ours is not None and name in setting.ours.counted
        yield file.found(
            MANAGED_RESOURCE_IGNORED,
            at,
            f"kube-scheduler does not count {name or 'the resource'}{', but a policy does' * counted}",
            severity="note" if counted else None,
        )


def _counted_by_device(file: SchedulerFile, entry: Entry, setting: Setting) -> Iterator[Finding]:
    """What our policies count, and kube-scheduler would look for in the status of nodes."""
    if setting.ours is None or not may_be_ours(file, entry, setting):
        return
    for name in setting.ours.counted:
        if _is_ignored(file, name) or (setting.advertised is not None and name in setting.advertised):
            continue
        known = setting.advertised is not None
        yield file.found(
            RESOURCE_NOT_ADVERTISED,
            entry.at("managedResources"),
            f"kube-scheduler looks for {name} on nodes{', and none has it' * known}",
            severity="error" if known else None,
        )


def _is_ignored(file: SchedulerFile, name: str) -> bool:
    by_extenders = {
        resource.text("name")
        for entry in file.entries
        for resource in entry.managed
        if resource.flag("ignoredByScheduler")
    }
    # What extenders say takes the place of what profiles say.
    if by_extenders:
        return name in by_extenders
    return bool(file.profiles) and all(_profile_ignores(profile, name) for profile in file.profiles)


def _profile_ignores(profile: Part, name: str) -> bool:
    disabled = [
        one for point in ("multiPoint", "filter") for _, one in plugins_of(profile, point, "disabled")
    ]
    if _FIT in disabled:
        return True
    for part in profile.parts("pluginConfig", {}):
        args: Any = part.raw("args") if part.text("name") == _FIT else None
        if isinstance(args, dict):
            names, groups = (args.get(key) for key in ("ignoredResources", "ignoredResourceGroups"))
            by_name = isinstance(names, list) and name in names
            return by_name or (isinstance(groups, list) and name.partition("/")[0] in groups)
    return False
