"""From policies and options to an installation: its values, checked for what can never work."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from bayplan.config.flags import Flags, Loaded, load_all
from bayplan.config.load import ConfigError, convert, in_words
from bayplan.install.container import HANDOVER_SECONDS
from bayplan.install.errors import InstallError
from bayplan.install.evaluate import over
from bayplan.install.names import Release, refuse_bad_names
from bayplan.install.packing import pack
from bayplan.install.refusals import refuse
from bayplan.install.resources import left_to_us
from bayplan.install.values import Shape, Values
from bayplan.install.verbs import verbs_of
from bayplan.install.versions import KubernetesVersion, parse_version
from bayplan.kube.unread import unread
from bayplan.kube.yaml import YamlError, read_documents

SYSTEM_NAMESPACES = ("kube-system", "default")
DEFAULT_VERSION = "1.36"
_LAST_SECONDS = 5


@dataclass(frozen=True)
class Wishes:
    """What was asked for; ``None`` where the default will do."""

    shape: Shape
    version: KubernetesVersion | None = None
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
    packed = pack(files, flags, loaded, mounted=mounted, given=given.files)
    version = wishes.version or parse_version(given.kubernetes_version or DEFAULT_VERSION)
    values = msgspec.structs.replace(
        given,
        shape=wishes.shape,
        kubernetes_version=f"1.{version.minor}.{version.patch}",
        fullname_override=given.fullname_override or wishes.name,
        # Who says no has one already: ours would change its labels, and take it away in the end.
        create_namespace=asked.get("createNamespace", wishes.namespace not in SYSTEM_NAMESPACES),
        config=packed.config,
        files={**given.files, **packed.texts},
        verbs=msgspec.structs.replace(verbs_of(loaded.policies), **asked.get("verbs", {})),
        extender=msgspec.structs.replace(
            given.extender, http_timeout=asked.get("extender", {}).get("httpTimeout", _http_timeout(loaded))
        ),
        termination_grace_period_seconds=asked.get("terminationGracePeriodSeconds", _grace_seconds(loaded)),
    )
    values = left_to_us(values, loaded.policies, loaded.config)
    refuse(values, loaded, asked)
    found = Release(
        msgspec.to_builtins(values),
        namespace=wishes.namespace,
        name=wishes.name,
        minor=version.minor,
        patch=version.patch,
        warnings=packed.warnings,
    )
    refuse_bad_names(found)
    return found


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
        raise InstallError(unread(path, error)) from error
    except YamlError as error:
        raise InstallError(str(error)) from error
    if not documents:
        return {}
    if len(documents) > 1:
        raise InstallError(f"{path}: want one YAML document, found {len(documents)}")
    (document,) = documents
    if not isinstance(document.data, Mapping):
        raise InstallError(f"{path}: no values in it, such as `replicaCount: 3`")
    try:
        convert(document, Values)
    except ConfigError as error:
        raise InstallError(str(error)) from error
    return dict(document.data)


def _convert(data: Mapping[str, Any]) -> Values:
    try:
        return msgspec.convert(over(msgspec.to_builtins(Values()), data), Values)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at `$.")
        raise InstallError(f"values: {place.rstrip('`') or 'all'}: {in_words(text)}") from error


def _http_timeout(loaded: Loaded) -> str:
    """kube-scheduler waits a little longer than we take; five seconds is its own default."""
    seconds = loaded.config.extender.limits.request_timeout.seconds + 0.5
    return f"{max(5, math.ceil(seconds))}s"


def _grace_seconds(loaded: Loaded) -> int:
    """Until the kubelet kills: the pause, requests that are under way, and some time to close."""
    drain = loaded.config.extender.limits.drain_timeout.seconds
    return HANDOVER_SECONDS + math.ceil(drain) + 2 * _LAST_SECONDS
