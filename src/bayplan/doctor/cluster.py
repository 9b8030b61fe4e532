"""Checks of a live cluster, and the state of it that they use."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bayplan.doctor.files import Given
from bayplan.doctor.finding import Finding, Severity, Trap, Where
from bayplan.doctor.manifests import ANNOTATION, is_bayplan, waits_for
from bayplan.doctor.rights import Rights
from bayplan.doctor.scheduler_file import DEFAULT_SCHEDULER, SchedulerFile
from bayplan.doctor.setting import Setting
from bayplan.doctor.tls import ends_soon
from bayplan.doctor.traps_of_clusters import (
    CERTIFICATE_REFUSED,
    CLOCK_SKEW,
    EXTENDER_UNREACHABLE,
    HEN_AND_EGG,
    NOT_LOOKED_AT,
    RBAC_MISSING,
    RBAC_TOO_WIDE,
    SCHEDULER_NAME_ANNOTATION,
)
from bayplan.doctor.traps_of_files import VERSION_UNTESTED
from bayplan.doctor.versions import TESTED

_SHOWN = 20
_SKEW_SECONDS = 5.0
_MIRROR = "kubernetes.io/config.mirror"


@dataclass(frozen=True)
class Handshake:
    """The result of a TLS handshake with an extender."""

    where: Where
    name: str
    problem: str = ""
    """Why nobody answered."""
    refused: str = ""
    """Why the certificate was not trusted."""
    ends: datetime | None = None


@dataclass(frozen=True)
class Cluster:
    """The state of a live cluster, as far as it was read."""

    server: str
    version: str = ""
    skew_seconds: float | None = None
    """How far the API server's clock is ahead of ours."""
    pods: Sequence[Mapping[str, Any]] = ()
    """Bayplan's own pods, and pods with the old scheduler annotation, as plain data."""
    rights: Sequence[Rights] = ()
    given: Given = field(default_factory=Given)
    """Configurations of kube-scheduler in ConfigMaps."""
    handshakes: Sequence[Handshake] = ()
    unseen: Sequence[str] = ()
    """What we have no right to read."""

    def found(self, trap: Trap, place: str, what: str, *, severity: Severity | None = None) -> Finding:
        """A finding about something in the cluster."""
        return Finding(trap, Where(self.server, 0, place), what, severity or trap.severity)


def check_cluster(
    cluster: Cluster, schedulers: Sequence[SchedulerFile], setting: Setting
) -> Iterator[Finding]:
    """Everything about the cluster that is not about a file."""
    yield from _clock_and_version(cluster, setting)
    yield from _annotations(cluster)
    yield from _hens(cluster, schedulers)
    for rights in cluster.rights:
        yield from _rights(cluster, rights)
    for shake in cluster.handshakes:
        yield from _handshake(shake, setting)
    for what in cluster.unseen:
        yield cluster.found(NOT_LOOKED_AT, "", what)


def _clock_and_version(cluster: Cluster, setting: Setting) -> Iterator[Finding]:
    skew = cluster.skew_seconds
    if skew is not None and abs(skew) > _SKEW_SECONDS:
        word = "ahead of" if skew > 0 else "behind"
        yield cluster.found(
            CLOCK_SKEW, "", f"the API server's clock is {abs(skew):.0f} s {word} this machine's"
        )
    if setting.version.minor not in TESTED:
        yield cluster.found(VERSION_UNTESTED, "/version", f"the cluster is Kubernetes {cluster.version}")


def _annotations(cluster: Cluster) -> Iterator[Finding]:
    asking = [pod for pod in cluster.pods if ANNOTATION in (pod["metadata"].get("annotations") or {})]
    for pod in asking[:_SHOWN]:
        wanted = pod["metadata"]["annotations"][ANNOTATION]
        name = pod["spec"].get("schedulerName") or DEFAULT_SCHEDULER
        if wanted == name:
            continue
        what = f"the pod asks for scheduler {wanted!r} in an annotation, and {name!r} schedules it"
        yield cluster.found(SCHEDULER_NAME_ANNOTATION, _called(pod), what)
    if len(asking) > _SHOWN:
        what = f"so do {len(asking) - _SHOWN} more pods"
        yield cluster.found(SCHEDULER_NAME_ANNOTATION, "pods", what)


def _hens(cluster: Cluster, schedulers: Sequence[SchedulerFile]) -> Iterator[Finding]:
    for pod in cluster.pods:
        # Static pods are not scheduled.
        if not is_bayplan(pod) or _MIRROR in (pod["metadata"].get("annotations") or {}):
            continue
        name = pod["spec"].get("schedulerName") or DEFAULT_SCHEDULER
        for scheduler in schedulers:
            waiting = waits_for(scheduler, name)
            if waiting is not None:
                what = f"the pod is placed by {name!r}, which waits for {waiting.name}"
                yield cluster.found(HEN_AND_EGG, _called(pod), what)


def _rights(cluster: Cluster, rights: Rights) -> Iterator[Finding]:
    for right in rights.missing:
        what = f"{rights.subject} may not {right}: {right.purpose}"
        yield cluster.found(RBAC_MISSING, rights.place, what)
    if rights.wide:
        bound = f" through ClusterRoleBinding {', '.join(rights.bindings)}" if rights.bindings else ""
        held = ", ".join(str(right) for right in rights.wide)
        severity: Severity = "note" if rights.own else "warning"
        yield cluster.found(
            RBAC_TOO_WIDE, rights.place, f"{rights.subject} may {held}{bound}", severity=severity
        )


def _handshake(shake: Handshake, setting: Setting) -> Iterator[Finding]:
    if shake.problem:
        what = f"{shake.name}: {shake.problem}"
        yield Finding(EXTENDER_UNREACHABLE, shake.where, what, EXTENDER_UNREACHABLE.severity)
    soon = ends_soon(shake.ends, setting.now) if shake.ends else None
    if soon is not None:
        what = f"the certificate that {shake.name} shows {soon[1]}"
        yield Finding(soon[0], shake.where, what, soon[0].severity)
    if shake.refused and (shake.ends is None or shake.ends > setting.now):
        what = f"{shake.name}: {shake.refused}"
        yield Finding(CERTIFICATE_REFUSED, shake.where, what, CERTIFICATE_REFUSED.severity)


def _called(pod: Mapping[str, Any]) -> str:
    return f"pod {pod['metadata'].get('namespace', 'default')}/{pod['metadata'].get('name', '?')}"
