"""From what was asked on the command line to a report, or to a corrected file."""

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bayplan.client.errors import ApiError, ConnectError
from bayplan.config.cluster import open_cluster
from bayplan.config.load import ConfigError
from bayplan.config.v1 import ClusterSection
from bayplan.doctor.cluster import check_cluster
from bayplan.doctor.examine import examine, ordered, with_files
from bayplan.doctor.files import STDIN, Given, UnreadableError, read_bytes, read_files, read_text
from bayplan.doctor.finding import Finding
from bayplan.doctor.fix import Fixed, fix
from bayplan.doctor.live import look
from bayplan.doctor.ours import Ours, read_ours
from bayplan.doctor.scheduler_container import scheduler_containers
from bayplan.doctor.scheduler_file import SchedulerFile
from bayplan.doctor.setting import Setting, Version

DEFAULT_VERSION = "1.36"
_FROM_STDIN = "<stdin>"


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
    setting: Setting
    without_scheduler: bool = False
    """Whether the files have no configuration of kube-scheduler: most checks had nothing to look at then."""

    @property
    def version(self) -> str:
        """The Kubernetes that it was examined for."""
        return str(self.setting.version)

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
            "kubernetesVersionFrom": self.setting.version_from,
            "findings": [finding.told() for finding in self.findings],
        }


def diagnose(request: Request) -> Report:
    """Everything that is wrong with the files, the configuration and the cluster that are named.

    `UnreadableError` for what cannot be examined.
    """
    given = _read(request.files)
    setting = _setting(request, given)
    if not request.live:
        _refuse_ours_alone(given)
        setting = with_files(given, setting)
        run = bool([*scheduler_containers(given.workloads)])
        without = not (given.schedulers or given.policies or run)
        return Report(tuple(examine(given, setting)), setting, without_scheduler=without)
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
    setting = with_files(given, setting)
    schedulers = [SchedulerFile(page) for page in given.schedulers]
    found = [*examine(given, setting), *check_cluster(cluster, schedulers, setting)]
    return Report(tuple(ordered(found)), setting)


def correct(request: Request) -> tuple[Fixed, Report]:
    """The one file that is named, corrected, and what is still wrong with it."""
    if len(request.files) != 1:
        raise UnreadableError(f"--fix prints one corrected file, and {len(request.files)} are named")
    (path,) = request.files
    source, content = _content(path)
    given = read_text(content, source=source)
    _refuse_ours_alone(given)
    setting = _setting(request, given)

    def again(text: str) -> list[Finding]:
        given = read_text(text, source=source)
        return examine(given, with_files(given, setting))

    fixed = fix(content, again, source=source, version=setting.version)
    return fixed, Report(tuple(ordered(fixed.left)), setting)


def _read(files: tuple[Path, ...]) -> Given:
    if STDIN not in files:
        return read_files(files)
    given = read_files([path for path in files if path != STDIN])
    source, content = _content(STDIN)
    return given.joined(read_text(content, source=source))


def _refuse_ours_alone(given: Given) -> None:
    """Raise `UnreadableError` if the files are Bayplan's configuration and nothing else.

    Its owner would take "no trap found" for an answer about kube-scheduler's configuration.
    """
    if not given.configurations or given.schedulers or given.policies or given.workloads:
        return
    source = given.configurations[0].document.source
    # A shell would read from a file that is called stdin.
    file = "bayplan.yaml" if source == _FROM_STDIN else shlex.quote(source)
    raise UnreadableError(
        f"{source}: this is Bayplan's own configuration, and doctor examines kube-scheduler's. Name both:"
        f" bayplan doctor scheduler.yaml --config {file}; or check this one: bayplan check --config {file}"
    )


def _content(path: Path) -> tuple[str, bytes]:
    """What errors call it, and what is in it."""
    return (_FROM_STDIN if path == STDIN else str(path)), read_bytes(path)


def _setting(request: Request, given: Given) -> Setting:
    ours = _ours(request, given)
    if request.kubernetes_version is None:
        return _of_images(given, Setting(version=Version.read(DEFAULT_VERSION), ours=ours))
    try:
        return Setting(version=Version.read(request.kubernetes_version), ours=ours)
    except ValueError as error:
        raise UnreadableError(f"--kubernetes-version: {error}") from error


def _of_images(given: Given, setting: Setting) -> Setting:
    """The version of the kube-scheduler in the manifests; of several, the one that knows the least flags."""
    found = [(one.version, one) for one in scheduler_containers(given.workloads) if one.version]
    if not found:
        return setting
    version, newest = max(found, key=lambda pair: (pair[0].minor, pair[0].patch or 0))
    said = f"the image of kube-scheduler in {newest.page.document.source}"
    return replace(setting, version=version, version_from=said)


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
