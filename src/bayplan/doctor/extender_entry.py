"""One entry of ``extenders`` by itself: verbs, weight, names or nodes, how long it is waited for."""

from collections.abc import Iterator
from typing import Any

from bayplan.doctor.duration import go_seconds, in_words
from bayplan.doctor.finding import Finding, Put, Repair
from bayplan.doctor.ours import DEADLINE_SECONDS
from bayplan.doctor.scheduler_file import Entry, SchedulerFile, plugins_of
from bayplan.doctor.setting import Setting
from bayplan.doctor.traps_of_entries import (
    FILTER_WITHOUT_PREEMPT,
    FULL_NODES,
    IGNORABLE_BINDER,
    NO_VERB,
    PREEMPT_WITHOUT_FILTER,
    TIMEOUT_LONG,
    TIMEOUT_SHORT,
    WEIGHT,
)

VERBS = {
    "filterVerb": "filter",
    "preemptVerb": "preempt",
    "prioritizeVerb": "prioritize",
    "bindVerb": "bind",
}
DEFAULT_SECONDS = 5.0
"""What kube-scheduler waits where httpTimeout is left out."""
_LONG_SECONDS = 10.0
_EMPTY_NODES_FROM = 33
_IGNORABLE_COVERS_BIND_FROM = 30


def check_entries(file: SchedulerFile, setting: Setting) -> Iterator[Finding]:
    """Every extender by itself."""
    for entry in file.entries:
        yield from _verbs(file, entry, setting)
        yield from _weight(file, entry)
        yield from _nodes(file, entry, setting)
        yield from _binder(file, entry, setting)
        yield from _timeout(file, entry, setting)


def may_be_ours(file: SchedulerFile, entry: Entry, setting: Setting) -> bool:
    """Whether the extender can be Bayplan: nobody says otherwise."""
    return setting.ours is None or setting.ours.is_me(entry, len(file.entries))


def preempts(file: SchedulerFile) -> bool:
    """Whether any profile evicts pods at all."""
    profiles = file.profiles
    if not profiles:
        return True
    for profile in profiles:
        off = {
            name
            for point in ("multiPoint", "postFilter")
            for _, name in plugins_of(profile, point, "disabled")
        }
        on = {
            name
            for point in ("multiPoint", "postFilter")
            for _, name in plugins_of(profile, point, "enabled")
        }
        if not off & {"DefaultPreemption", "*"} or on:
            return True
    return False


def _verbs(file: SchedulerFile, entry: Entry, setting: Setting) -> Iterator[Finding]:
    if not any(entry.text(key) for key in VERBS):
        yield file.found(NO_VERB, entry.path, f"extender {entry.name} has no verb")
    filters, preempt = entry.text("filterVerb"), entry.text("preemptVerb")
    if filters and not preempt and preempts(file):
        repairs: tuple[Repair, ...] = ()
        if may_be_ours(file, entry, setting):
            repairs = (Put((*entry.path, "preemptVerb"), "preempt", after=str(entry.at("filterVerb")[-1])),)
        what = f"extender {entry.name} has a filterVerb and no preemptVerb"
        yield file.found(FILTER_WITHOUT_PREEMPT, entry.at("filterVerb"), what, repairs=repairs)
    if preempt and not filters and not _protects(setting):
        what = f"extender {entry.name} has a preemptVerb and no filterVerb"
        yield file.found(PREEMPT_WITHOUT_FILTER, entry.at("preemptVerb"), what)


def _protects(setting: Setting) -> bool:
    policies = setting.ours.policies if setting.ours else ()
    return any(policy.of_kind(kind) for policy in policies for kind in ("protect", "victims"))


def _weight(file: SchedulerFile, entry: Entry) -> Iterator[Finding]:
    verb = entry.text("prioritizeVerb")
    weight = entry.whole("weight")
    if not verb or (entry.has("weight") and weight is None) or (weight or 0) > 0:
        return
    said = f"weight is {weight}" if weight is not None else "weight is missing"
    path = (*entry.path, str(entry.at("weight")[-1]) if entry.has("weight") else "weight")
    repair = Put(path, 1, after=str(entry.at("prioritizeVerb")[-1]))
    yield file.found(WEIGHT, path, f"{said}, and there is a prioritizeVerb", repairs=(repair,))


def _nodes(file: SchedulerFile, entry: Entry, setting: Setting) -> Iterator[Finding]:
    asked = [key for key in ("filterVerb", "prioritizeVerb") if entry.text(key)]
    if not asked or entry.flag("nodeCacheCapable") or _is_no_flag(entry.raw("nodeCacheCapable")):
        return
    broken = "filterVerb" in asked and setting.version.minor >= _EMPTY_NODES_FROM
    said = "is false" if entry.has("nodeCacheCapable") else "is missing, which means false"
    key = str(entry.at("nodeCacheCapable")[-1]) if entry.has("nodeCacheCapable") else "nodeCacheCapable"
    repairs: tuple[Repair, ...] = ()
    knows_cluster = setting.ours is None or setting.ours.cluster_source != "request"
    if may_be_ours(file, entry, setting) and knows_cluster:
        repairs = (Put((*entry.path, key), value=True, after=str(entry.at(asked[0])[-1])),)
    yield file.found(
        FULL_NODES,
        (*entry.path, key),
        f"nodeCacheCapable {said}: whole nodes are sent",
        severity="error" if broken else "warning",
        repairs=repairs,
    )


def _is_no_flag(value: Any) -> bool:
    """Whether nobody can say which flag is meant; that it is none is a finding of its own."""
    return isinstance(value, str) and value.lower() != "false"


def _binder(file: SchedulerFile, entry: Entry, setting: Setting) -> Iterator[Finding]:
    if not entry.text("bindVerb") or not entry.flag("ignorable"):
        return
    covered = setting.version.minor >= _IGNORABLE_COVERS_BIND_FROM
    yield file.found(
        IGNORABLE_BINDER,
        entry.at("ignorable"),
        "ignorable and bindVerb together",
        severity="error" if covered else "warning",
        repairs=(Put(entry.at("ignorable"), value=False),),
    )


def _timeout(file: SchedulerFile, entry: Entry, setting: Setting) -> Iterator[Finding]:
    raw = entry.raw("httpTimeout")
    seconds = go_seconds(raw) if isinstance(raw, str) else None
    if raw is not None and seconds is None:
        return
    given = bool(seconds)
    waited = seconds or DEFAULT_SECONDS
    path = entry.at("httpTimeout")
    ours = setting.ours if setting.ours and may_be_ours(file, entry, setting) else None
    deadline = ours.deadline_seconds if ours else DEADLINE_SECONDS
    if waited <= deadline and (ours or setting.ours is None):
        said = in_words(waited) if given else f"left out, which means {in_words(DEFAULT_SECONDS)},"
        repair = Put(
            path if entry.has("httpTimeout") else (*path, "httpTimeout"),
            in_words(deadline + 0.5),
            after=str(entry.at("urlPrefix")[-1]),
        )
        yield file.found(
            TIMEOUT_SHORT,
            path,
            f"httpTimeout is {said} and Bayplan answers within {in_words(deadline)}",
            severity="warning" if ours else "note",
            repairs=(repair,) if ours and deadline < _LONG_SECONDS and entry.has("urlPrefix") else (),
        )
    if waited > _LONG_SECONDS:
        repairs = (Put(path, in_words(max(DEFAULT_SECONDS, deadline + 0.5))),)
        usable = repairs if deadline + 0.5 <= _LONG_SECONDS else ()
        what = f"each call that is not answered costs {in_words(waited)}"
        yield file.found(TIMEOUT_LONG, path, what, repairs=usable)
