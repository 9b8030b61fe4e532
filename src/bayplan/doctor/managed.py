"""``managedResources``: which pods an extender is asked about at all."""

import re
from collections.abc import Iterator

from bayplan.doctor.finding import Finding
from bayplan.doctor.scheduler_file import Entry, Part, SchedulerFile
from bayplan.doctor.setting import Setting
from bayplan.doctor.traps_of_entries import (
    MANAGED_RESOURCE_IGNORED,
    MANAGED_RESOURCE_NAME,
    MANAGED_RESOURCE_TWICE,
    MANAGED_RESOURCE_UNCHECKED,
)

_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_DOMAIN_LENGTH, _NAME_LENGTH = 253, 63


def check_managed_resources(file: SchedulerFile, _: Setting) -> Iterator[Finding]:
    """Names that are none, resources of two extenders, resources that nobody counts."""
    owners: dict[str, Entry] = {}
    for entry in file.entries:
        for resource in entry.managed:
            yield from _one(file, entry, resource)
            name = resource.text("name")
            if name and name in owners:
                what = f"{name} is managed by {owners[name].name} already"
                yield file.found(MANAGED_RESOURCE_TWICE, resource.at("name"), what)
            owners.setdefault(name, entry)


def _one(file: SchedulerFile, entry: Entry, resource: Part) -> Iterator[Finding]:
    name = resource.text("name")
    if problem := name_problem(name):
        yield file.found(MANAGED_RESOURCE_NAME, resource.at("name"), problem)
    if not resource.flag("ignoredByScheduler"):
        return
    at = resource.at("ignoredByScheduler")
    if not entry.text("filterVerb"):
        yield file.found(MANAGED_RESOURCE_UNCHECKED, at, f"nobody counts {name or 'the resource'}")
    else:
        yield file.found(
            MANAGED_RESOURCE_IGNORED, at, f"kube-scheduler does not count {name or 'the resource'}"
        )


def name_problem(name: str) -> str:
    """Why this is no name of an extended resource; empty where it is one."""
    if not name:
        return "the name is missing"
    domain, slash, last = name.rpartition("/")
    if not slash:
        return f"{name!r} has no domain"
    if "kubernetes.io/" in name:
        return f"{name!r} belongs to Kubernetes itself"
    if domain.startswith("requests."):
        return f"{name!r} begins with requests., which quotas use"
    fits = len(domain) <= _DOMAIN_LENGTH and len(last) <= _NAME_LENGTH
    if not fits or not _DOMAIN.fullmatch(domain) or not _NAME.fullmatch(last):
        return f"{name!r} is no DOMAIN/NAME in letters, digits, '-', '_' and '.'"
    return ""
