"""Profiles: which policies judge the pods of one scheduler name, in which order, with which weights.

`Profile.default` is what kube-scheduler does without a configuration, `Profile.read` what it does with one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from bayplan.authoring.hooks import PolicyError
from bayplan.authoring.installed import find_named
from bayplan.authoring.load import load
from bayplan.authoring.registry import Hook, Policy
from bayplan.config.kube_scheduler import (
    KubeSchedulerProfile,
    Plugins,
    enabled,
    read_kube_scheduler_config,
)
from bayplan.config.load import ConfigError, explain, place
from bayplan.engine.make_room import DEFAULT_PREEMPTION, DefaultPreemptionArgs
from bayplan.kube.yaml import Document, suggest
from bayplan.policies.default_profile import DEFAULT_PROFILE, ELSEWHERE, WEIGHTS
from bayplan.policies.default_profile.node_resources_fit import NodeResourcesFitArgs

DEFAULT_SCHEDULER = "default-scheduler"
FIT = "NodeResourcesFit"
PREEMPTION = "DefaultPreemption"
_DEFAULT_FIT = NodeResourcesFitArgs()


@dataclass(frozen=True)
class Profile:
    """The policies that do what a profile of kube-scheduler does: `Profile.default`, `Profile.read`."""

    scheduler_name: str
    policies: tuple[Policy, ...]
    percentage_of_nodes_to_score: int = 0
    """0 lets kube-scheduler choose: fewer than all in a large cluster. Here all are looked at."""
    left_out: tuple[str, ...] = ()
    """Plugins of the profile that nobody here knows: compiled into a kube-scheduler of somebody's own."""
    preemption: DefaultPreemptionArgs | None = DEFAULT_PREEMPTION
    """How pods of lower priority are looked for that could leave; ``None`` where nobody has to."""
    fit: NodeResourcesFitArgs | None = _DEFAULT_FIT
    """Which resources have to be free in a node's status; ``None`` where nobody looks at that."""

    @classmethod
    def default(cls, scheduler_name: str = DEFAULT_SCHEDULER) -> "Profile":
        """What kube-scheduler does without a configuration."""
        weights = {name: WEIGHTS.get(name, 1) for name in DEFAULT_PROFILE}
        policies = [load(name)[0].make(weight=weight) for name, weight in weights.items()]
        return cls(scheduler_name, tuple(policies))

    @classmethod
    def read(cls, path: str | Path, scheduler_name: str = DEFAULT_SCHEDULER) -> "Profile":
        """The profile of that scheduler name in a KubeSchedulerConfiguration."""
        profiles = read_profiles(Path(path))
        for profile in profiles:
            if profile.scheduler_name == scheduler_name:
                return profile
        names = [profile.scheduler_name for profile in profiles]
        raise ConfigError(
            f"{path}: no profile for scheduler {scheduler_name!r}{suggest(scheduler_name, names)}"
        )


def read_profiles(path: Path) -> list[Profile]:
    """Every profile of a KubeSchedulerConfiguration; the default one where it names none."""
    config, document = read_kube_scheduler_config(path)
    if not config.profiles:
        return [Profile.default()]
    everywhere = config.percentage_of_nodes_to_score or 0
    profiles = [
        _profile(one, document, ("profiles", number), everywhere)
        for number, one in enumerate(config.profiles)
    ]
    names = [profile.scheduler_name for profile in profiles]
    for number, name in enumerate(names):
        at = place(document, ("profiles", number, "schedulerName"))
        if not name:
            raise ConfigError(f"{at}: each of several profiles needs a schedulerName")
        if name in names[:number]:
            raise ConfigError(f"{at}: two profiles for scheduler {name!r}")
    return profiles


def _profile(
    given: KubeSchedulerProfile, document: Document, at: tuple[str | int, ...], percentage: int
) -> Profile:
    alone = len(document.data.get("profiles") or ()) == 1
    name = given.scheduler_name or (DEFAULT_SCHEDULER if alone else "")
    weights = {known: WEIGHTS.get(known, 1) for known in (*DEFAULT_PROFILE, *ELSEWHERE)}
    on = enabled(given.plugins or Plugins(), weights)
    places = {one.name: (*at, "pluginConfig", n) for n, one in enumerate(given.plugin_config or ())}
    args = {one.name: one.args or {} for one in given.plugin_config or ()}
    policies, left_out = [], []
    for plugin in on.names:
        if plugin in ELSEWHERE:
            continue
        if plugin not in DEFAULT_PROFILE and find_named(plugin) is None:
            left_out.append(plugin)
            continue
        policy = _policy(plugin, args.get(plugin, {}), document, (*places.get(plugin, at), "args"))
        hooks = tuple(hook for hook in policy.hooks if _point(plugin, hook) in {None, *on.points[plugin]})
        policies.append(replace(policy, hooks=hooks, weight=on.weights.get(plugin, 1)))
    preemption = None
    if PREEMPTION in on.after_refusals:
        preemption = _preemption(args.get(PREEMPTION, {}), document, (*places.get(PREEMPTION, at), "args"))
    said = given.percentage_of_nodes_to_score
    percentage = percentage if said is None else said
    fit = None
    if "filter" in on.points.get(FIT, ()):
        fit = msgspec.convert(_plain(args.get(FIT, {})), NodeResourcesFitArgs)
    return Profile(name, tuple(policies), percentage, tuple(left_out), preemption, fit)


def _preemption(
    args: Mapping[str, Any], document: Document, at: tuple[str | int, ...]
) -> DefaultPreemptionArgs:
    try:
        return msgspec.convert(_plain(args), DefaultPreemptionArgs)
    except msgspec.ValidationError as error:
        raise explain(error, document, DefaultPreemptionArgs, base=at) from error


def _policy(name: str, args: Mapping[str, Any], document: Document, at: tuple[str | int, ...]) -> Policy:
    (found,) = load(name)
    try:
        return found.make(args=_plain(args))
    except msgspec.ValidationError as error:
        raise explain(error, document, found.schema, base=at) from error
    except PolicyError as error:
        raise ConfigError(f"{place(document, at)}: {error}") from error


def _plain(args: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in args.items() if key not in ("apiVersion", "kind")}


def _point(plugin: str, hook: Hook) -> str | None:
    """The point of the framework at which a hook speaks; ``None`` where it only prepares."""
    if plugin == "SchedulingGates":
        return "pre_enqueue"
    kind = hook.spec.kind
    if kind == "filter":
        return "pre_filter" if hook.spec.first else "filter"
    return "score" if kind == "score" else None
