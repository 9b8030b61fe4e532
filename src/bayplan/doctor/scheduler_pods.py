"""The pods of kube-scheduler itself: flags that are gone, and whether the configuration gets to it."""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path as HostPath
from typing import Any

from bayplan.doctor.files import Given
from bayplan.doctor.finding import Finding, Page, Severity
from bayplan.doctor.manifests import value_at
from bayplan.doctor.scheduler_container import Mount, SchedulerContainer, scheduler_containers
from bayplan.doctor.scheduler_file import SchedulerFile
from bayplan.doctor.schema import CLIENT
from bayplan.doctor.setting import Setting
from bayplan.doctor.traps_of_pods import (
    CONFIG_NOT_MOUNTED,
    CONFIG_NOT_READ,
    CONFIG_NOT_THERE,
    FLAG_GONE,
    KUBECONFIG_IGNORED,
)

_POLICY = "convert the Policy (`bayplan doctor FILE --fix`), and name the result with --config"
_LOGS = "kube-scheduler writes its log to standard error, and only there"
GONE_FLAGS: dict[str, tuple[int, str]] = {
    "algorithm-provider": (22, "enable and disable plugins in a profile of the configuration"),
    "hard-pod-affinity-symmetric-weight": (
        22,
        "write hardPodAffinityWeight into the arguments of InterPodAffinity",
    ),
    "scheduler-name": (22, "write schedulerName into a profile of the configuration"),
    "policy-config-file": (23, _POLICY),
    "policy-configmap": (23, _POLICY),
    "policy-configmap-namespace": (23, _POLICY),
    "use-legacy-policy-config": (23, _POLICY),
    "address": (24, "there is --bind-address"),
    "port": (24, "there is --secure-port"),
    "add-dir-header": (26, _LOGS),
    "alsologtostderr": (26, _LOGS),
    "log-backtrace-at": (26, _LOGS),
    "log-dir": (26, _LOGS),
    "log-file": (26, _LOGS),
    "log-file-max-size": (26, _LOGS),
    "logtostderr": (26, _LOGS),
    "one-output": (26, _LOGS),
    "skip-headers": (26, _LOGS),
    "skip-log-headers": (26, _LOGS),
    "stderrthreshold": (26, _LOGS),
    "lock-object-name": (28, "there is --leader-elect-resource-name"),
    "lock-object-namespace": (28, "there is --leader-elect-resource-namespace"),
}
"""The first minor version without the flag, and what to do instead."""
_FOLDERS = frozenset({"configMap", "downwardAPI", "emptyDir", "projected", "secret"})


def check_scheduler_pods(
    given: Given, schedulers: Sequence[SchedulerFile], setting: Setting
) -> Iterator[Finding]:
    """Every kube-scheduler in the manifests, and that one of them reads the configuration."""
    containers = scheduler_containers(given.workloads)
    for container in containers:
        yield from _flags(container, setting)
        yield from _config(container, given.config_maps, setting)
    yield from _nobody_reads(containers, schedulers)
    yield from _kubeconfig(containers, schedulers)


def host_files(given: Given) -> Iterator[HostPath]:
    """The files of hosts that kube-schedulers are told to read."""
    for container in scheduler_containers(given.workloads):
        mount = container.mount_of(container.config_file) if container.config_file else None
        if mount and (file := _on_host(mount)):
            yield file


def _flags(container: SchedulerContainer, setting: Setting) -> Iterator[Finding]:
    for flag in container.flags:
        first, instead = GONE_FLAGS.get(flag.name, (0, ""))
        if not first:
            continue
        gone = setting.version.minor >= first
        since = f"is gone since 1.{first}" if gone else f"will be gone with 1.{first}"
        yield container.page.found(
            FLAG_GONE,
            flag.path,
            f"{container.name}: --{flag.name} {since}; {instead}",
            severity="error" if gone else "warning",
        )


def _config(
    container: SchedulerContainer, config_maps: Sequence[Page], setting: Setting
) -> Iterator[Finding]:
    file, flag = container.config_file, container.config
    if not file or flag is None:
        return
    mount = container.mount_of(file)
    if mount is None:
        what = f"{container.name} reads {file}, and no volumeMount covers it"
        if container.is_upstream:
            yield container.page.found(CONFIG_NOT_MOUNTED, flag.path, what)
        else:
            what += "; the image would have to bring the file along"
            yield container.page.found(CONFIG_NOT_MOUNTED, flag.path, what, severity="warning")
        return
    on_host = _on_host(mount)
    if _is_folder(mount):
        what = f"{container.name} reads {file}, which is a folder: the volume is mounted in its place"
        yield container.page.found(CONFIG_NOT_THERE, mount.path, what)
    elif on_host in setting.missing:
        what = f"{container.name} reads {on_host} of its host; this machine has the folder without the file"
        yield container.page.found(CONFIG_NOT_THERE, mount.path, what, severity="warning")
    else:
        yield from _in_config_map(container, mount, config_maps)


def _is_folder(mount: Mount) -> bool:
    kind = value_at(mount.volume, ("hostPath", "type"))
    on_host = isinstance(kind, str) and kind.startswith("Directory")
    return mount.inside == "." and (on_host or bool(_FOLDERS & set(mount.volume)))


def _on_host(mount: Mount) -> HostPath | None:
    start = value_at(mount.volume, ("hostPath", "path"))
    if not isinstance(start, str) or not start.startswith("/"):
        return None
    return HostPath(posixpath.normpath(posixpath.join(start, mount.inside)))


def _in_config_map(
    container: SchedulerContainer, mount: Mount, config_maps: Sequence[Page]
) -> Iterator[Finding]:
    """Only where the ConfigMap is among the files can be said what is in it."""
    source = mount.volume.get("configMap")
    name = source.get("name") if isinstance(source, dict) else None
    for page in config_maps if isinstance(name, str) else ():
        if value_at(page.data, ("metadata", "name")) != name or not _same_namespace(page, container.page):
            continue
        names = _names(page.data, value_at(mount.volume, ("configMap", "items")))
        if mount.inside not in names:
            has = f"there is {', '.join(sorted(names))}" if names else "there is nothing"
            what = f"{container.name} reads {mount.inside} of ConfigMap {name}, and {has} in it"
            yield container.page.found(CONFIG_NOT_THERE, mount.path, what)


def _same_namespace(one: Page, other: Page) -> bool:
    """Where one of them does not say its own, whoever applies it decides."""
    first, second = (value_at(page.data, ("metadata", "namespace")) for page in (one, other))
    return not first or not second or bool(first == second)


def _names(data: Mapping[str, Any], items: Any) -> set[str]:
    """The files that a volume has of a ConfigMap."""
    keys = {str(key) for part in ("data", "binaryData") for key in _mapping(data.get(part))}
    if not isinstance(items, list):
        return keys
    chosen = [item for item in items if isinstance(item, dict) and str(item.get("key")) in keys]
    return {posixpath.normpath(str(item.get("path"))) for item in chosen}


def _nobody_reads(
    containers: Sequence[SchedulerContainer], schedulers: Sequence[SchedulerFile]
) -> Iterator[Finding]:
    files = [file for file in schedulers if file.entries]
    if not files or not all(container.config is None and container.all_said for container in containers):
        return
    source = files[0].page.document.source
    for container in containers:
        what = f"{container.name} has no --config; the extenders are named in {source}"
        yield container.page.found(CONFIG_NOT_READ, container.path, what)


def _kubeconfig(
    containers: Sequence[SchedulerContainer], schedulers: Sequence[SchedulerFile]
) -> Iterator[Finding]:
    """Where there is one of each, it is known which configuration a kube-scheduler reads."""
    readers = [container for container in containers if container.config]
    if len(readers) != 1 or len(schedulers) != 1:
        return
    (container,), (file,) = readers, schedulers
    flags = {flag.name: flag for flag in container.flags}
    if "kubeconfig" not in flags or "master" in flags:
        return
    if not file.top.part("clientConnection", CLIENT).text("kubeconfig"):
        source = file.page.document.source
        what = f"{container.name}: --kubeconfig is not heeded, and clientConnection of {source} names none"
        static = container.page.data.get("kind") == "Pod"
        severity: Severity = "error" if static else "warning"
        yield container.page.found(KUBECONFIG_IGNORED, flags["kubeconfig"].path, what, severity=severity)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
