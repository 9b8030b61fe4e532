"""From what was asked on the command line to a report, or to a corrected file."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bayplan.client.errors import ApiError, ConnectError
from bayplan.config.cluster import open_cluster
from bayplan.config.load import ConfigError
from bayplan.config.v1 import ClusterSection
from bayplan.doctor.cluster import check_cluster
from bayplan.doctor.examine import examine, ordered, with_certificates
from bayplan.doctor.files import STDIN, Given, UnreadableError, read_bytes, read_files, read_text
from bayplan.doctor.finding import Finding
from bayplan.doctor.fix import Fixed, fix
from bayplan.doctor.live import look
from bayplan.doctor.ours import Ours, read_ours
from bayplan.doctor.scheduler_file import SchedulerFile
from bayplan.doctor.setting import Setting, Version

DEFAULT_VERSION = "1.36"


@dataclass(frozen=True)
class Request:
    """What to examine, and against what."""

    files: tuple[Path, ...] = ()
    config: Path | None = None
    kubernetes_version: str | None = None
    live: bool = False
    kubeconfig: Path | None = None
    context: str | None = None
    in_cluster: bool = False


@dataclass(frozen=True)
class Report:
    """Everything that was found."""

    findings: tuple[Finding, ...]
    version: str

    def count(self, severity: str) -> int:
        """How many of one severity."""
        return sum(finding.severity == severity for finding in self.findings)

    def exit_code(self, *, strict: bool = False) -> int:
        """1 where there are errors; with ``strict``, also where there are warnings."""
        return 1 if self.count("error") or (strict and self.count("warning")) else 0

    def told(self) -> dict[str, Any]:
        """For programs."""
        return {
            "ok": not self.count("error"),
            "kubernetesVersion": self.version,
            "findings": [finding.told() for finding in self.findings],
        }


def diagnose(request: Request) -> Report:
    """Everything that is wrong with the files, the configuration and the cluster that are named.

    `UnreadableError` for what cannot be examined.
    """
    given = _read(request.files)
    setting = _setting(request, given)
    if not request.live:
        setting = with_certificates(given, setting)
        return Report(tuple(examine(given, setting)), str(setting.version))
    section = ClusterSection(
        source="in-cluster" if request.in_cluster else "kubeconfig",
        kubeconfig=str(request.kubeconfig.absolute()) if request.kubeconfig else "",
        context=request.context or "",
    )
    try:
        _, connection = open_cluster(section, Path())
        assert connection is not None, "both lead to an API server"
        cluster, setting = look(
            connection, given, setting, fixed_version=request.kubernetes_version is not None
        )
    except (ApiError, ConnectError, ConfigError) as error:
        raise UnreadableError(str(error)) from error
    given.schedulers += cluster.given.schedulers
    setting = with_certificates(given, setting)
    schedulers = [SchedulerFile(page) for page in given.schedulers]
    found = [*examine(given, setting), *check_cluster(cluster, schedulers, setting)]
    return Report(tuple(ordered(found)), str(setting.version))


def correct(request: Request) -> tuple[Fixed, Report]:
    """The one file that is named, corrected, and what is still wrong with it."""
    if len(request.files) != 1:
        raise UnreadableError(f"--fix prints one corrected file, and {len(request.files)} are named")
    (path,) = request.files
    source, content = _content(path)
    setting = _setting(request, read_text(content, source=source))

    def again(text: str) -> list[Finding]:
        given = read_text(text, source=source)
        return examine(given, with_certificates(given, setting))

    fixed = fix(content, again, source=source, version=setting.version)
    return fixed, Report(tuple(ordered(fixed.left)), str(setting.version))


def _read(files: tuple[Path, ...]) -> Given:
    if STDIN not in files:
        return read_files(files)
    given = read_files([path for path in files if path != STDIN])
    source, content = _content(STDIN)
    return given.joined(read_text(content, source=source))


def _content(path: Path) -> tuple[str, bytes]:
    """What errors call it, and what is in it."""
    return ("<stdin>" if path == STDIN else str(path)), read_bytes(path)


def _setting(request: Request, given: Given) -> Setting:
    try:
        version = Version.read(request.kubernetes_version or DEFAULT_VERSION)
    except ValueError as error:
        raise UnreadableError(f"--kubernetes-version: {error}") from error
    return replace(Setting(version=version), ours=_ours(request, given))


def _ours(request: Request, given: Given) -> Ours | None:
    """Our configuration: the one that --config names, or the one among the files."""
    pages = given.configurations
    if request.config is not None:
        named = read_text(read_bytes(request.config), source=str(request.config)).configurations
        if not named:
            raise UnreadableError(
                f"{request.config}: no BayplanConfiguration in it; it is what --config is for"
            )
        pages = named
    if len(pages) > 1:
        raise UnreadableError("more than one BayplanConfiguration is named: give one of them, with --config")
    return read_ours(pages[0]) if pages else None
