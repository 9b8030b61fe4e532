"""From policies and options to an installation: its values, checked for what can never work."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from bayplan.config.flags import Flags, Loaded, load_all
from bayplan.config.load import in_words
from bayplan.install.container import HANDOVER_SECONDS
from bayplan.install.errors import InstallError
from bayplan.install.evaluate import over
from bayplan.install.names import Release, refuse_bad_names
from bayplan.install.packing import pack
from bayplan.install.values import Shape, Values
from bayplan.install.verbs import verbs_of
from bayplan.install.versions import KubernetesVersion
from bayplan.kube.yaml import YamlError, read_documents
from bayplan.snapshot.units import Units

SYSTEM_NAMESPACES = ("kube-system", "default")
_LAST_SECONDS = 5
_ATTACHED = ("service", "control-plane")


@dataclass(frozen=True)
class Wishes:
    """What was asked for; ``None`` where the default will do."""

    shape: Shape
    version: KubernetesVersion
    namespace: str = "kube-system"
    name: str = "bayplan"
    values: Path | None = None
    """A file with values of the chart."""
    over: Mapping[str, Any] = field(default_factory=dict)
    """Values that options gave."""


def plan(files: Sequence[str], flags: Flags, wishes: Wishes) -> Release:
    """The installation of these policies."""
    loaded = load_all(files, flags)
    if not loaded.policies and wishes.shape != "standalone":
        raise InstallError("no policies: name a file, such as policy.py, or a configuration with --config")
    asked = over(_from_file(wishes.values), wishes.over)
    given = _convert(asked)
    mounted = [str(mount.get("mountPath", "")) for mount in given.extra_volume_mounts]
    config, texts = pack(files, flags, loaded, mounted=mounted)
    values = msgspec.structs.replace(
        given,
        shape=wishes.shape,
        kubernetes_version=f"1.{wishes.version.minor}.{wishes.version.patch}",
        fullname_override=given.fullname_override or wishes.name,
        # Who says no has one already: ours would change its labels, and take it away in the end.
        create_namespace=asked.get("createNamespace", wishes.namespace not in SYSTEM_NAMESPACES),
        config=config,
        files={**given.files, **texts},
        verbs=verbs_of(loaded.policies),
        extender=msgspec.structs.replace(given.extender, http_timeout=_http_timeout(loaded)),
        termination_grace_period_seconds=_grace_seconds(loaded),
    )
    _refuse_hen_and_egg(values, loaded)
    _refuse_certificates_of_their_own(values, loaded)
    found = release(values, wishes)
    refuse_bad_names(found)
    return found


def release(values: Values, wishes: Wishes) -> Release:
    """These values at the place that was asked for."""
    return Release(
        msgspec.to_builtins(values),
        namespace=wishes.namespace,
        name=wishes.name,
        minor=wishes.version.minor,
        patch=wishes.version.patch,
    )


def changed_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are not the chart's own: a file for ``helm install --values``."""
    return _difference(values, msgspec.to_builtins(Values()))


def _difference(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        default = defaults.get(key)
        if value == default:
            continue
        both = isinstance(value, Mapping) and isinstance(default, Mapping) and key != "config"
        found[key] = _difference(value, default) if both else value  # type: ignore[arg-type]
    return found


def _from_file(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        documents = list(read_documents(path.read_bytes(), source=str(path)))
    except OSError as error:
        raise InstallError(f"{path}: {error.strerror or error}") from error
    except YamlError as error:
        raise InstallError(str(error)) from error
    found = documents[0].data if documents else {}
    if not isinstance(found, Mapping):
        raise InstallError(f"{path}: no values in it, such as `replicaCount: 3`")
    return dict(found)


def _convert(data: Mapping[str, Any]) -> Values:
    try:
        return msgspec.convert(over(msgspec.to_builtins(Values()), data), Values)
    except msgspec.ValidationError as error:
        raise InstallError(f"values: {in_words(str(error))}") from error


def _http_timeout(loaded: Loaded) -> str:
    """kube-scheduler waits a little longer than we take; five seconds is its own default."""
    seconds = loaded.config.extender.limits.request_timeout.seconds + 0.5
    return f"{max(5, math.ceil(seconds))}s"


def _grace_seconds(loaded: Loaded) -> int:
    """Until the kubelet kills: the pause, requests that are under way, and some time to close."""
    drain = loaded.config.extender.limits.drain_timeout.seconds
    return HANDOVER_SECONDS + math.ceil(drain) + 2 * _LAST_SECONDS


def _refuse_certificates_of_their_own(values: Values, loaded: Loaded) -> None:
    """Where kube-scheduler calls without TLS, a server with it would never be understood."""
    called_by_tls = values.shape in _ATTACHED and values.tls.mode != "none"
    if loaded.config.extender.tls is not None and values.shape != "standalone" and not called_by_tls:
        raise InstallError(
            f"extender.tls: kube-scheduler calls a {values.shape} without TLS here: leave it out of the"
            " configuration, or render service or control-plane with TLS"
        )


def _refuse_hen_and_egg(values: Values, loaded: Loaded) -> None:
    """Asked by the default scheduler about every pod, we would be asked about our own."""
    entry, attached = values.extender, values.shape in _ATTACHED
    if entry.ignorable and values.verbs.bind:
        raise InstallError(
            "ignorable with policies that bind: from Kubernetes 1.30 on the default binder would bind behind"
            " their back; leave --ignorable away, and name what they hand out with --managed-resource"
        )
    if attached and not entry.ignorable and not entry.managed_resources:
        names = sorted(
            {c.resource for policy in loaded.policies for c in policy.columns if isinstance(c, Units)}
        )
        example = f", such as --managed-resource {names[0]}" if names else ""
        other = "" if values.verbs.bind else ", or --ignorable, so that pods are scheduled without us, too"
        raise InstallError(
            f"{values.shape}: the default scheduler would wait for us with every pod, our own included: give"
            f" --managed-resource NAME for the pods that are our business{example}{other}"
        )
