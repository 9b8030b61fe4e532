"""Names that are worked out: of objects, images and accounts. The chart's ``_helpers.tpl`` says the same.

The comparison of ``bayplan render`` with ``helm template`` holds both against each other.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from bayplan import __version__
from bayplan.install.errors import InstallError

CHART = "bayplan"
_LONGEST = 63
_SERVICE_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_ON_LOOPBACK = re.compile(r"(127\.[0-9.]+|localhost|\[::1\]|::1):")
_NAMESPACE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True)
class Release:
    """One installation: its values as the chart has them, and where it goes."""

    values: Mapping[str, Any]
    namespace: str
    minor: int
    """Kubernetes 1.MINOR."""
    patch: int = 0
    name: str = CHART
    service: str = "bayplan-render"
    """Who keeps it: the label app.kubernetes.io/managed-by."""
    warnings: tuple[str, ...] = ()
    """What whoever applies it should know."""

    def value(self, path: str) -> Any:
        """The value at a path."""
        found: Any = self.values
        for step in path.split("."):
            found = found[step]
        return found

    def configured(self, path: str) -> Any:
        """What the user's BayplanConfiguration says at a path; ``None`` for nothing."""
        found: Any = self.values["config"]
        for step in path.split("."):
            found = found.get(step) if isinstance(found, Mapping) else None
        return found


def worked_out(name: str, release: Release) -> str:
    """The text behind a name."""
    return _NAMES[name](release)


def refuse_bad_names(release: Release) -> None:
    """Names and an address that the API server would refuse; the first is also that of a Service."""
    refuse_bad_name(_fullname(release))
    refuse_bad_namespace(release.namespace)
    lease_key = _LEASE_NAMESPACES.get(release.value("shape"), "namespace")
    refuse_bad_namespace(_lease_namespace(release), key=lease_key)
    if address := release.value("service.clusterIP"):
        try:
            ip_address(address)
        except ValueError as error:
            raise InstallError(
                f"service.clusterIP: {address!r} is no IP address, such as 10.96.0.50"
            ) from error


def refuse_bad_name(name: str) -> None:
    """A name that is also that of a Service, with room for what we append."""
    room = _LONGEST - len("-ops")
    if not _SERVICE_NAME.fullmatch(name) or len(name) > room:
        raise InstallError(
            f"name: {name!r}: small letters, digits and dashes, a letter first, at most {room} characters"
        )


def refuse_bad_namespace(namespace: str, *, key: str = "namespace") -> None:
    """A namespace that the API server would refuse; ``key`` is where it was given."""
    if not _NAMESPACE_NAME.fullmatch(namespace) or len(namespace) > _LONGEST:
        raise InstallError(
            f"{key}: {namespace!r}: small letters, digits and dashes, at most {_LONGEST} characters"
        )


def _cut(text: str) -> str:
    return text[:_LONGEST].rstrip("-")


def _name(release: Release) -> str:
    return _cut(release.value("nameOverride") or CHART)


def _fullname(release: Release) -> str:
    if override := release.value("fullnameOverride"):
        return _cut(override)
    name = release.value("nameOverride") or CHART
    return _cut(release.name if name in release.name else f"{release.name}-{name}")


def _lease_namespace(release: Release) -> str:
    """Where our Lease is; kube-scheduler's own, in a sidecar, is where we are."""
    key = _LEASE_NAMESPACES.get(release.value("shape"))
    return (release.configured(key) if key else None) or release.namespace


def scheduler_names(release: Release) -> list[str]:
    """What pods write as schedulerName to be placed by us, in the shapes that schedule."""
    profiles = release.configured("scheduler.profiles") if release.value("shape") == "standalone" else None
    return [profile["schedulerName"] for profile in profiles or ()] or [release.value("scheduler.name")]


def _service_account(release: Release) -> str:
    own = _fullname(release) if release.value("serviceAccount.create") else "default"
    return release.value("serviceAccount.name") or own


def _image(release: Release) -> str:
    return f"{release.value('image.repository')}:{release.value('image.tag') or __version__}"


def _scheduler_image(release: Release) -> str:
    tag = release.value("scheduler.image.tag") or f"v1.{release.minor}.{release.patch}"
    return f"{release.value('scheduler.image.repository')}:{tag}"


def _page_port(release: Release) -> str:
    """The port of a page that listens beyond the pod; empty where it does not."""
    listen = str(release.configured("page.listen") or "")
    _, colon, port = listen.rpartition(":")
    return port if colon and port.isdecimal() and not _ON_LOOPBACK.match(listen) else ""


def _server_secret(release: Release) -> str:
    return release.value("tls.secretName") or f"{_fullname(release)}-tls"


def _client_secret(release: Release) -> str:
    return release.value("tls.clientSecretName") or f"{_fullname(release)}-client-tls"


def _url(release: Release) -> str:
    """Where kube-scheduler calls: beside us on loopback, or behind the Service."""
    port = release.value("service.port")
    scheme = "http" if release.value("tls.mode") == "none" else "https"
    shape = release.value("shape")
    if shape == "sidecar":
        return f"http://127.0.0.1:{EXTENDER_PORT}"
    if shape == "control-plane":
        return f"{scheme}://127.0.0.1:{EXTENDER_PORT}"
    host = release.value("service.clusterIP") or f"{_fullname(release)}.{release.namespace}.svc"
    host = f"[{host}]" if ":" in host else host
    return f"{scheme}://{host}:{port}"


_LEASE_NAMESPACES = {
    "service": "extender.lease.namespace",
    "standalone": "scheduler.leaderElection.resourceNamespace",
}
EXTENDER_PORT = 8888
OPS_PORT = 8889
SCHEDULER_OPS_PORT = 8891
KUBE_SCHEDULER_PORT = 10259

_NAMES: dict[str, Callable[[Release], str]] = {
    "name": _name,
    "fullname": _fullname,
    "serviceAccountName": _service_account,
    "image": _image,
    "schedulerImage": _scheduler_image,
    "serverSecret": _server_secret,
    "clientSecret": _client_secret,
    "url": _url,
    "pagePort": _page_port,
    "version": lambda release: _cut(release.value("image.tag") or __version__),
    "kubernetesVersion": lambda release: f"1.{release.minor}",
    "namespace": lambda release: release.namespace,
    "leaseNamespace": _lease_namespace,
    "clusterName": lambda release: f"{release.namespace}-{_fullname(release)}",
    "instance": lambda release: release.name,
    "managedBy": lambda release: release.service,
    "chart": lambda _: f"{CHART}-{__version__}",
}
