"""The old Policy, with predicates and priorities, as the KubeSchedulerConfiguration that does the same."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from bayplan.doctor.duration import in_words
from bayplan.doctor.finding import Finding, Page
from bayplan.doctor.legacy_plugins import ALWAYS, PREDICATES, PRIORITIES, STRATEGIES, WITHOUT_SUCCESSOR
from bayplan.doctor.schema import EXTENDER, MANAGED, TLS, Keys
from bayplan.doctor.setting import Setting, Version
from bayplan.doctor.traps_of_entries import TIMEOUT_UNIT
from bayplan.doctor.traps_of_files import POLICY_API, POLICY_WITHOUT_SUCCESSOR
from bayplan.doctor.versions import newest_for
from bayplan.kube.yaml import Path

_GONE_FROM = 23
_HARDLY_MEANT_SECONDS = 0.001
_NOT_OURS = {
    "alwaysCheckAllPredicates": "kube-scheduler stops at the first plugin that refuses a node",
}


@dataclass
class Converted:
    """The configuration, and what could not be taken over."""

    configuration: dict[str, Any]
    findings: list[Finding] = field(default_factory=list)


def check_policy(page: Page, setting: Setting) -> Iterator[Finding]:
    """That the API is gone, and everything in the file that has no successor."""
    gone = setting.version.minor >= _GONE_FROM
    what = "this is a Policy with " + ", ".join(
        f"{len(_items(page.data, key))} {key}" for key in ("predicates", "priorities", "extenders")
    )
    yield page.found(POLICY_API, (), what, severity="error" if gone else "warning")
    yield from convert_policy(page, setting.version).findings


def convert_policy(page: Page, version: Version) -> Converted:
    """The KubeSchedulerConfiguration that does what the Policy did."""
    made = Converted({"apiVersion": newest_for(version), "kind": "KubeSchedulerConfiguration"})
    profile: dict[str, Any] = {"schedulerName": "default-scheduler"}
    plugins: dict[str, Any] = {}
    if _has(page.data, "predicates"):
        plugins["filter"] = _only([{"name": name} for name in _filters(page, made)])
    scoring: dict[str, Any] | None = None
    if _has(page.data, "priorities"):
        weights, scoring = _scores(page, made)
        plugins["score"] = _only([{"name": name, "weight": weight} for name, weight in weights.items()])
    if plugins:
        profile["plugins"] = plugins
    configs = [
        *([{"name": "NodeResourcesFit", "args": scoring}] if scoring else []),
        *_symmetric_weight(page.data),
    ]
    if configs:
        profile["pluginConfig"] = configs
    made.configuration["profiles"] = [profile]
    for key, why in _NOT_OURS.items():
        if written := _key(page.data, key):
            made.findings.append(page.found(POLICY_WITHOUT_SUCCESSOR, (written,), f"{key} is gone: {why}"))
    entries = [
        _entry(page, made, entry, (_key(page.data, "extenders"), number))
        for number, entry in enumerate(_items(page.data, "extenders"))
        if isinstance(entry, dict)
    ]
    if entries:
        made.configuration["extenders"] = entries
    return made


def _only(enabled: list[dict[str, Any]]) -> dict[str, Any]:
    """A Policy named what there is; a configuration changes what there is by default."""
    return {"disabled": [{"name": "*"}], "enabled": enabled}


def _filters(page: Page, made: Converted) -> list[str]:
    names = dict.fromkeys(ALWAYS)
    for path, predicate in _named(page, "predicates"):
        name = str(predicate["name"])
        known = () if predicate.get("argument") else PREDICATES.get(name, ())
        if not known:
            made.findings.append(_no_successor(page, path, "predicate", predicate))
        names |= dict.fromkeys(known)
    return list(names)


def _scores(page: Page, made: Converted) -> tuple[dict[str, int], dict[str, Any] | None]:
    """The plugins with their weights, and how NodeResourcesFit scores where that is not the default."""
    weights: dict[str, int] = {}
    strategy: dict[str, Any] | None = None
    for path, priority in _named(page, "priorities"):
        name = str(priority["name"])
        plugin = "" if priority.get("argument") else PRIORITIES.get(name, "")
        if not plugin or name == "RequestedToCapacityRatioPriority":
            made.findings.append(_no_successor(page, path, "priority", priority))
            continue
        weight = priority.get("weight")
        whole = isinstance(weight, int) and not isinstance(weight, bool) and weight > 0
        weights[plugin] = weights.get(plugin, 0) + (weight if whole and isinstance(weight, int) else 1)
        if name in STRATEGIES and STRATEGIES[name] != "LeastAllocated":
            strategy = {"scoringStrategy": {"type": STRATEGIES[name]}}
    return weights, strategy


def _no_successor(page: Page, path: Path, kind: str, item: dict[str, Any]) -> Finding:
    name = str(item["name"])
    hint = WITHOUT_SUCCESSOR.get(name, "nobody knows it; it may have been compiled into your kube-scheduler")
    if item.get("argument") and name not in WITHOUT_SUCCESSOR:
        hint = "with an argument it was of your own making; write node affinity, topology spread or a policy"
    return page.found(POLICY_WITHOUT_SUCCESSOR, path, f"{kind} {name}: {hint}")


def _symmetric_weight(data: dict[str, Any]) -> list[dict[str, Any]]:
    weight = data.get(_key(data, "hardPodAffinitySymmetricWeight"))
    if not isinstance(weight, int) or isinstance(weight, bool):
        return []
    return [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": weight}}]


def _entry(page: Page, made: Converted, entry: dict[str, Any], path: Path) -> dict[str, Any]:
    """An extender with the keys spelled as they are now, and the nanoseconds written out."""
    named = _spelled(entry, EXTENDER)
    timeout = named.get("httpTimeout")
    if isinstance(timeout, int | float) and not isinstance(timeout, bool):
        seconds = timeout / 1e9
        meant = in_words(seconds) if seconds >= _HARDLY_MEANT_SECONDS else "5s"
        if seconds < _HARDLY_MEANT_SECONDS:
            at = (*path, _key(entry, "httpTimeout"))
            what = f"{timeout} is {in_words(seconds)}: in a Policy a number counts nanoseconds"
            made.findings.append(page.found(TIMEOUT_UNIT, at, what))
        named["httpTimeout"] = meant
    if isinstance(named.get("tlsConfig"), dict):
        named["tlsConfig"] = _spelled(named["tlsConfig"], TLS)
    if isinstance(named.get("managedResources"), list):
        named["managedResources"] = [
            _spelled(item, MANAGED) if isinstance(item, dict) else item for item in named["managedResources"]
        ]
    # In the order of the API, so that the same Policy is always the same file.
    order = [key for key in EXTENDER if key in named]
    return {key: named[key] for key in [*order, *(key for key in named if key not in EXTENDER)]}


def _spelled(data: dict[str, Any], keys: Keys) -> dict[str, Any]:
    right = {key.lower(): key for key in keys}
    return {right.get(key.lower(), key): value for key, value in data.items()}


def _named(page: Page, key: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    for number, item in enumerate(_items(page.data, key)):
        if isinstance(item, dict) and isinstance(item.get("name"), str):
            yield (_key(page.data, key), number), item


def _key(data: dict[str, Any], key: str) -> str:
    """The key as it is written: a Policy was read without regard to case."""
    return next((written for written in data if written.lower() == key.lower()), "")


def _has(data: dict[str, Any], key: str) -> bool:
    return isinstance(data.get(_key(data, key)), list)


def _items(data: dict[str, Any], key: str) -> list[Any]:
    value = data.get(_key(data, key))
    return value if isinstance(value, list) else []
