"""Which Kubernetes reads which version of the file, and what changed between them."""

from collections.abc import Iterator

from bayplan.doctor.finding import Finding, Put
from bayplan.doctor.ours import Ours
from bayplan.doctor.scheduler_file import SchedulerFile
from bayplan.doctor.setting import Setting, Version
from bayplan.doctor.traps_of_files import (
    API_VERSION,
    API_VERSION_DEPRECATED,
    NOT_FIRST_DOCUMENT,
    SLOW_RETRY,
    VERSION_UNTESTED,
)
from bayplan.doctor.traps_of_policies import VERSION_SKEW
from bayplan.kube.yaml import suggest

GROUP = "kubescheduler.config.k8s.io"
CURRENT = f"{GROUP}/v1"
_READ: dict[str, tuple[int, int | None, int | None]] = {
    f"{GROUP}/v1alpha1": (0, 18, None),
    f"{GROUP}/v1alpha2": (18, 19, None),
    f"{GROUP}/v1beta1": (19, 22, 22),
    f"{GROUP}/v1beta2": (22, 27, 25),
    f"{GROUP}/v1beta3": (23, 28, 26),
    CURRENT: (25, None, None),
}
"""First and last minor version that reads it, and the one that deprecated it."""
TESTED = range(25, 39)
_FAILED_NODES_HEEDED_FROM = 38


def newest_for(version: Version) -> str:
    """The newest version of the file that this Kubernetes reads."""
    read = [name for name, (first, _, _) in _READ.items() if first <= version.minor]
    return read[-1]


def check_versions(file: SchedulerFile, setting: Setting) -> Iterator[Finding]:
    """The version of the file against the version of Kubernetes."""
    yield from _api_version(file, setting)
    if setting.version.minor not in TESTED:
        what = f"Kubernetes {setting.version} was asked for"
        yield file.found(VERSION_UNTESTED, file.top.at("apiVersion"), what)
    if file.page.number and not file.page.embedded:
        what = f"this is document {file.page.number + 1} of its file"
        yield file.found(NOT_FIRST_DOCUMENT, (), what)
    nudged = setting.ours is not None and setting.ours.nudges
    filters = [entry for entry in file.entries if entry.text("filterVerb")]
    if filters and not nudged and _retries_late(setting.version):
        yield file.found(SLOW_RETRY, filters[0].at("filterVerb"), f"kube-scheduler {setting.version} filters")


def check_skew(ours: Ours, setting: Setting) -> Iterator[Finding]:
    """What our configuration says of its caller, against the caller."""
    if ours.caller_minor >= _FAILED_NODES_HEEDED_FROM > setting.version.minor:
        path = ("extender", "kubeSchedulerVersion")
        what = f"the file says 1.{ours.caller_minor}, and kube-scheduler is {setting.version}"
        yield ours.page.found(VERSION_SKEW, path, what)


def _api_version(file: SchedulerFile, setting: Setting) -> Iterator[Finding]:
    written = file.api_version
    at = file.top.at("apiVersion")
    minor = setting.version.minor
    repairs = (Put(at or ("apiVersion",), newest_for(setting.version), after="kind"),)
    if written not in _READ:
        said = f"{written!r} is none{suggest(written, _READ)}" if written else "apiVersion is missing"
        yield file.found(API_VERSION, at, said, repairs=repairs)
        return
    first, last, deprecated = _READ[written]
    short = written.rpartition("/")[2]
    if minor < first:
        what = f"{short} begins with 1.{first}; this is {setting.version}"
        yield file.found(API_VERSION, at, what, repairs=repairs)
    elif last is not None and minor > last:
        last_read = "is long gone" if "alpha" in short else f"was last read by 1.{last}"
        what = f"{short} {last_read}; this is {setting.version}"
        yield file.found(API_VERSION, at, what, repairs=repairs)
    elif deprecated is not None and minor >= deprecated and last is not None:
        what = f"{short} is deprecated since 1.{deprecated} and gone from 1.{last + 1} on"
        yield file.found(API_VERSION_DEPRECATED, at, what, repairs=repairs)


def _retries_late(version: Version) -> bool:
    unfixed = version.patch is not None and version.patch < 10
    return version.minor == 25 or (version.minor == 29 and unfixed)
