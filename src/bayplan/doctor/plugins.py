"""Plugins of a profile: gone, unknown, without a name, twice, at a wrong point, or missing."""

import difflib
from collections.abc import Iterator

from bayplan.doctor.finding import Finding
from bayplan.doctor.plugin_points import LASTING, POINTS_OF
from bayplan.doctor.scheduler_file import Part, SchedulerFile, plugins_of
from bayplan.doctor.schema import POINTS
from bayplan.doctor.setting import Setting
from bayplan.doctor.traps_of_files import (
    NO_BIND_PLUGIN,
    PLUGIN_GONE,
    PLUGIN_POINT,
    PLUGIN_TWICE,
    PLUGIN_WITHOUT_NAME,
    QUEUE_SORT,
    UNKNOWN_PLUGIN,
)
from bayplan.kube.yaml import Path
from bayplan.policies.default_profile import DEFAULT_PROFILE, ELSEWHERE

_KNOWN = frozenset((*DEFAULT_PROFILE, *ELSEWHERE))
_GONE = {
    "AzureDiskLimits": "NodeVolumeLimits",
    "CinderLimits": "NodeVolumeLimits",
    "EBSLimits": "NodeVolumeLimits",
    "GCEPDLimits": "NodeVolumeLimits",
    "NodeLabel": "node affinity",
    "NodePreferAvoidPods": "a taint with the effect PreferNoSchedule",
    "NodeResourcesLeastAllocated": "NodeResourcesFit with scoringStrategy LeastAllocated",
    "NodeResourcesMostAllocated": "NodeResourcesFit with scoringStrategy MostAllocated",
    "RequestedToCapacityRatio": "NodeResourcesFit with scoringStrategy RequestedToCapacityRatio",
    "SelectorSpread": "PodTopologySpread",
    "ServiceAffinity": "inter-pod affinity",
}
_LIMITS_GONE_FROM = 32
Place = tuple[Path, str]


def check_plugins(file: SchedulerFile, setting: Setting) -> Iterator[Finding]:
    """Every profile by itself, and that all sort their queue alike."""
    for profile in file.profiles:
        # The beta versions still knew some that are gone.
        if file.api_version.endswith("/v1"):
            yield from _gone(file, profile, setting)
            yield from _unknown(file, profile)
            yield from _misplaced(file, profile)
        yield from _nameless(file, profile)
        yield from _twice(file, profile)
        yield from _binds(file, profile)
        yield from _sorts(file, profile)


def _enabled(profile: Part) -> list[Place]:
    return [place for point in POINTS for place in plugins_of(profile, point, "enabled")]


def _configured(profile: Part) -> list[Place]:
    return [(part.path, part.text("name")) for part in profile.parts("pluginConfig", {})]


def _gone(file: SchedulerFile, profile: Part, setting: Setting) -> Iterator[Finding]:
    for path, name in _enabled(profile) + _configured(profile):
        still_there = name.endswith("Limits") and setting.version.minor < _LIMITS_GONE_FROM
        if name in _GONE and not still_there:
            yield file.found(PLUGIN_GONE, path, f"{name} is gone; its successor is {_GONE[name]}")


def _unknown(file: SchedulerFile, profile: Part) -> Iterator[Finding]:
    """Each once, at the first place: a plugin of another build stands at many points."""
    told = {*_KNOWN, *_GONE, ""}
    for path, name in _enabled(profile) + _configured(profile):
        if name not in told:
            near = difflib.get_close_matches(name, _KNOWN, n=1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            yield file.found(UNKNOWN_PLUGIN, path, f"there is no plugin {name!r}{meant}")
        told.add(name)


def _misplaced(file: SchedulerFile, profile: Part) -> Iterator[Finding]:
    for point in LASTING:
        for path, name in plugins_of(profile, point, "enabled"):
            if name in POINTS_OF and point not in POINTS_OF[name]:
                what = f"{name} is enabled at {point}; it is made for {', '.join(POINTS_OF[name])}"
                yield file.found(PLUGIN_POINT, path, what)


def _nameless(file: SchedulerFile, profile: Part) -> Iterator[Finding]:
    for point in POINTS:
        for path, name in plugins_of(profile, point, "enabled"):
            if not name:
                yield file.found(PLUGIN_WITHOUT_NAME, path, f"a plugin without a name is enabled at {point}")


def _twice(file: SchedulerFile, profile: Part) -> Iterator[Finding]:
    lists = {f"enabled at {point}": list(plugins_of(profile, point, "enabled")) for point in POINTS}
    for said, places in {**lists, "configured": _configured(profile)}.items():
        seen: set[str] = set()
        for path, name in places:
            if name in seen and (name or said == "configured"):
                yield file.found(PLUGIN_TWICE, path, f"{name or 'a plugin without a name'} is {said} already")
            seen.add(name)


def _binds(file: SchedulerFile, profile: Part) -> Iterator[Finding]:
    sure, possible = _at_point(profile, "bind", "DefaultBinder")
    if not sure | possible:
        yield file.found(NO_BIND_PLUGIN, _place(profile, "bind"), "no plugin is left at bind")


def _sorts(file: SchedulerFile, profile: Part) -> Iterator[Finding]:
    sure, possible = _at_point(profile, "queueSort", "PrioritySort")
    if len(sure) > 1 or not sure | possible:
        said = f"{' and '.join(sorted(sure))} are" if sure else "no plugin is left"
        yield file.found(QUEUE_SORT, _place(profile, "queueSort"), f"{said} at queueSort")
    elif _written(profile, "queueSort") != _written(file.profiles[0], "queueSort"):
        what = "queueSort is not written as in the first profile"
        yield file.found(QUEUE_SORT, _place(profile, "queueSort"), what)


def _written(profile: Part, point: str) -> list[list[str]]:
    return [[name for _, name in plugins_of(profile, point, which)] for which in ("enabled", "disabled")]


def _at_point(profile: Part, point: str, default: str) -> tuple[set[str], set[str]]:
    """The plugins that a point surely has, and those of another build that it may have by multiPoint."""

    def names(where: str, which: str) -> set[str]:
        return {name for _, name in plugins_of(profile, where, which)}

    everywhere = names("multiPoint", "enabled")
    if not names("multiPoint", "disabled") & {default, "*"}:
        everywhere.add(default)
    off = names(point, "disabled")
    general = set() if "*" in off else everywhere - off
    sure = names(point, "enabled") | (general & {default})
    return sure, general - _KNOWN


def _place(profile: Part, point: str) -> Path:
    """The point, or the nearest thing above it that is written."""
    plugins = profile.part("plugins", {})
    return plugins.at(point) if plugins.has(point) else plugins.at("multiPoint")
