"""Runs every check over all given files; the one list of doctor's checks."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from bayplan.doctor.addresses import check_addresses
from bayplan.doctor.bounds import check_bounds
from bayplan.doctor.chain import check_chain
from bayplan.doctor.extender_entry import check_entries
from bayplan.doctor.files import Given
from bayplan.doctor.finding import SEVERITIES, Finding, Page
from bayplan.doctor.keys import check_keys
from bayplan.doctor.legacy import check_policy, convert_policy
from bayplan.doctor.managed import check_managed_resources
from bayplan.doctor.manifests import check_workload
from bayplan.doctor.ours import Ours
from bayplan.doctor.plugins import check_plugins
from bayplan.doctor.policies import check_our_policies, check_policies
from bayplan.doctor.profiles import check_profiles
from bayplan.doctor.scheduler_file import SchedulerFile
from bayplan.doctor.scheduler_pods import check_scheduler_pods, host_files
from bayplan.doctor.setting import Setting
from bayplan.doctor.tls import certificate_files, check_our_door, check_tls
from bayplan.doctor.versions import check_skew, check_versions
from bayplan.kube.yaml import Document
from bayplan.ops.expiry import chain_ends

Check = Callable[[SchedulerFile, Setting], Iterator[Finding]]
CHECKS: tuple[Check, ...] = (
    check_versions,
    check_keys,
    check_bounds,
    check_addresses,
    check_tls,
    check_entries,
    check_managed_resources,
    check_chain,
    check_profiles,
    check_plugins,
    check_policies,
)


def examine(given: Given, setting: Setting) -> list[Finding]:
    """All findings, the worst first, then by place."""
    schedulers = [SchedulerFile(page) for page in given.schedulers]
    found = [finding for file in schedulers for check in CHECKS for finding in check(file, setting)]
    for page in given.policies:
        found += check_policy(page, setting)
        found += _of_converted(page, setting)
    if setting.ours is not None:
        found += examine_ours(setting.ours, setting)
    for page in given.workloads:
        found += check_workload(page, schedulers)
    found += check_scheduler_pods(given, schedulers, setting)
    return ordered(found)


def examine_ours(ours: Ours, setting: Setting) -> Iterator[Finding]:
    """Our own configuration by itself."""
    yield from ours.refused
    yield from check_our_door(ours, setting)
    yield from check_our_policies(ours)
    yield from check_skew(ours, setting)


def ordered(found: Iterable[Finding]) -> list[Finding]:
    """The worst first, then by file and line; each once."""
    unique = dict.fromkeys(found)
    return sorted(unique, key=lambda f: (SEVERITIES.index(f.severity), f.where.source, f.where.line, f.id))


def with_files(given: Given, setting: Setting) -> Setting:
    """The setting with what this machine has of the files that are named: the ends of certificates, gaps."""
    named = [path for page in given.schedulers for _, path in certificate_files(SchedulerFile(page))]
    named += setting.ours.certificates().values() if setting.ours else ()
    ends: dict[Path, datetime | None] = {path: chain_ends(path) for path in named if is_here(path)}
    missing = frozenset(path for path in host_files(given) if _is_missing(path))
    return replace(setting, certificates={**setting.certificates, **ends}, missing=missing)


def is_here(path: Path) -> bool:
    """Whether the file can be looked at: those of a control plane are often elsewhere, or for root alone."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _is_missing(path: Path) -> bool:
    """Whether its folder is here without it; elsewhere nothing can be said."""
    try:
        path.stat()
    except FileNotFoundError:
        return path.parent != Path("/") and path.parent.is_dir()
    except (OSError, ValueError):
        return False
    return False


def _of_converted(page: Page, setting: Setting) -> Iterator[Finding]:
    """What is wrong with the extenders of a Policy, whatever its form; it is repaired by converting it."""
    made = convert_policy(page, setting.version).configuration
    lines = {path: line for path, line in page.document.lines.items() if path and path[0] == "extenders"}
    file = SchedulerFile(Page(Document(page.document.source, made, lines), page.number, embedded=True))
    for check in CHECKS:
        if check is not check_versions:
            yield from check(file, setting)
