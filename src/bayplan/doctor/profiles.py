"""Checks profiles: scheduler names, the share of nodes that is scored, and the effect on an extender."""

from collections.abc import Iterator

from bayplan.doctor.finding import Finding
from bayplan.doctor.scheduler_file import DEFAULT_SCHEDULER, Part, SchedulerFile
from bayplan.doctor.setting import Setting
from bayplan.doctor.traps_of_files import (
    EVERY_POD_WAITS,
    EXTENDERS_ARE_GLOBAL,
    NO_EXTENDERS,
    PROFILE_NAME,
    SAMPLING,
)

_ALL_OFFERED_BELOW = 100


def check_profiles(file: SchedulerFile, setting: Setting) -> Iterator[Finding]:
    """Check scheduler names, sampling of nodes, and which pods wait while an extender is down."""
    yield from _names(file)
    if not file.entries:
        yield file.found(NO_EXTENDERS, file.top.at("extenders"), "no extender is named")
        return
    names = ", ".join(sorted(file.scheduler_names))
    if len(file.profiles) > 1:
        what = f"the extenders are asked for the pods of all of these: {names}"
        yield file.found(EXTENDERS_ARE_GLOBAL, file.top.at("extenders"), what)
    if DEFAULT_SCHEDULER in file.scheduler_names:
        for entry in file.entries:
            if entry.holds_up_every_pod:
                what = f"every pod of {DEFAULT_SCHEDULER} waits for {entry.name}"
                yield file.found(EVERY_POD_WAITS, entry.path, what)
    yield from _sampling(file, setting)


def _names(file: SchedulerFile) -> Iterator[Finding]:
    seen: set[str] = set()
    for profile in file.profiles:
        name = profile.text("schedulerName")
        if name in seen and name:
            what = f"two profiles are called {name!r}"
            yield file.found(PROFILE_NAME, profile.at("schedulerName"), what)
        elif not name and (len(file.profiles) > 1 or profile.raw("schedulerName") == ""):
            yield file.found(PROFILE_NAME, profile.at("schedulerName"), "schedulerName is missing")
        seen.add(name)


def _sampling(file: SchedulerFile, setting: Setting) -> Iterator[Finding]:
    if not any(entry.text("filterVerb") for entry in file.entries):
        return
    if setting.nodes is not None and setting.nodes < _ALL_OFFERED_BELOW:
        return
    key = "percentageOfNodesToScore"
    overall = file.top.whole(key)
    places: list[Part] = [profile for profile in file.profiles if profile.has(key)]
    if not places or len(places) < len(file.profiles):
        places.append(file.top)
    for part in places:
        percent = part.whole(key) if part.has(key) else overall
        if percent == 100 or (percent is not None and not 0 <= percent <= 100):
            continue
        said = f"{key} is {percent}" if percent else f"{key} is left to kube-scheduler"
        known = f"; the cluster has {setting.nodes} nodes" if setting.nodes is not None else ""
        yield file.found(
            SAMPLING,
            part.at(key),
            f"{said}: not all nodes are offered{known}",
            severity="warning" if percent or setting.nodes is not None else "note",
        )
