"""kube-scheduler's own configuration file: which plugins a profile has, at which points, with which weights.

Read as kube-scheduler reads it: a profile changes the default one. ``multiPoint`` stands for every point, and
what a point says itself goes before that.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from msgspec import Struct

from bayplan.config.load import ConfigError, convert
from bayplan.kube.unread import unread
from bayplan.kube.yaml import Document, YamlError, read_documents

EVERYTHING = "*"


class Plugin(Struct, frozen=True, forbid_unknown_fields=True):
    """A plugin that is enabled, or disabled, somewhere."""

    name: str
    weight: int | None = None


class PluginSet(Struct, frozen=True, forbid_unknown_fields=True):
    """What is enabled and disabled at one point."""

    enabled: tuple[Plugin, ...] | None = None
    disabled: tuple[Plugin, ...] | None = None


class Plugins(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The points of the scheduling framework."""

    multi_point: PluginSet | None = None
    pre_enqueue: PluginSet | None = None
    queue_sort: PluginSet | None = None
    pre_filter: PluginSet | None = None
    filter: PluginSet | None = None
    post_filter: PluginSet | None = None
    pre_score: PluginSet | None = None
    score: PluginSet | None = None
    reserve: PluginSet | None = None
    permit: PluginSet | None = None
    pre_bind: PluginSet | None = None
    bind: PluginSet | None = None
    post_bind: PluginSet | None = None
    placement_generate: PluginSet | None = None
    placement_score: PluginSet | None = None


class PluginConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of one plugin."""

    name: str
    args: dict[str, Any] | None = None


class KubeSchedulerProfile(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How the pods of one scheduler name are judged."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: int | None = None
    plugins: Plugins | None = None
    plugin_config: tuple[PluginConfig, ...] | None = None


class KubeSchedulerExtender(Struct, frozen=True, rename="camel"):
    """Somebody whom kube-scheduler asks, and we do not."""

    url_prefix: str = ""

    @property
    def address(self) -> str:
        """Where it is, without the user and the password that some write before it."""
        try:
            found = urlsplit(self.url_prefix).netloc.rpartition("@")[2]
        except ValueError:
            found = ""
        return found or "one without an address"


class KubeSchedulerConfiguration(Struct, frozen=True, rename="camel"):
    """The part of the file that says how pods are judged; clients and leases are passed over."""

    api_version: Literal["kubescheduler.config.k8s.io/v1"]
    kind: Literal["KubeSchedulerConfiguration"]
    profiles: tuple[KubeSchedulerProfile, ...] | None = None
    extenders: tuple[KubeSchedulerExtender, ...] | None = None
    percentage_of_nodes_to_score: int | None = None


def read_kube_scheduler_config(path: Path) -> tuple[KubeSchedulerConfiguration, Document]:
    """The configuration in a file, and the document that knows its lines."""
    try:
        documents = list(read_documents(path.read_bytes(), source=str(path)))
    except OSError as error:
        raise ConfigError(unread(path, error)) from error
    except YamlError as error:
        raise ConfigError(str(error)) from error
    for document in documents:
        if isinstance(document.data, dict) and document.data.get("kind") == "KubeSchedulerConfiguration":
            return convert(document, KubeSchedulerConfiguration), document
    raise ConfigError(
        f"{path}: no KubeSchedulerConfiguration in it; it is what kube-scheduler's --config names"
    )


@dataclass(frozen=True)
class Enabled:
    """The plugins of a profile: their names in the order of the ``filter`` point, and what each may do."""

    names: tuple[str, ...]
    points: Mapping[str, frozenset[str]]
    """The points of each plugin: of ``pre_enqueue``, ``pre_filter``, ``filter``, ``score``."""
    weights: Mapping[str, int]
    after_refusals: frozenset[str] = frozenset()
    """The plugins that are heard where no node is left: those of the point ``post_filter``."""


POINTS = ("pre_enqueue", "pre_filter", "filter", "score")


def enabled(plugins: Plugins, defaults: Mapping[str, int]) -> Enabled:
    """What is enabled at each point, once the profile has changed the defaults: names with weights."""
    everywhere = _merged([Plugin(name, weight) for name, weight in defaults.items()], plugins.multi_point)
    at = {point: _at_point(getattr(plugins, point), everywhere) for point in POINTS}
    order = dict.fromkeys(plugin.name for point in ("filter", *POINTS) for plugin in at[point])
    return Enabled(
        tuple(order),
        {name: frozenset(p for p in POINTS if any(each.name == name for each in at[p])) for name in order},
        {plugin.name: plugin.weight or 1 for plugin in at["score"]},
        frozenset(_names(_at_point(plugins.post_filter, everywhere))),
    )


def _merged(defaults: list[Plugin], given: PluginSet | None) -> list[Plugin]:
    """The defaults in their places without those that the profile disables, and its own in or after them."""
    own = given or PluginSet()
    disabled = _names(own.disabled)
    mine = {plugin.name: plugin for plugin in own.enabled or ()}
    kept = [] if EVERYTHING in disabled else [plugin for plugin in defaults if plugin.name not in disabled]
    replaced = {plugin.name for plugin in kept}
    return [mine.get(plugin.name, plugin) for plugin in kept] + [
        plugin for plugin in own.enabled or () if plugin.name not in replaced
    ]


def _at_point(given: PluginSet | None, everywhere: list[Plugin]) -> list[Plugin]:
    """What a point names and is enabled everywhere comes first, then the rest of that, then what is new."""
    own = given or PluginSet()
    mine = list(own.enabled or ())
    disabled = _names(own.disabled)
    if EVERYTHING in disabled:
        return mine
    named, general = _names(mine), {plugin.name for plugin in everywhere} - disabled
    overriding = [plugin for plugin in mine if plugin.name in general]
    rest = [plugin for plugin in everywhere if plugin.name in general - named]
    return overriding + rest + [plugin for plugin in mine if plugin.name not in general]


def _names(plugins: Iterable[Plugin] | None) -> set[str]:
    return {plugin.name for plugin in plugins or ()}
