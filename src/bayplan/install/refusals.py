"""Installations that could never work: each refused with what to do in its place."""

from collections.abc import Mapping
from typing import Any

from bayplan.config.flags import Loaded
from bayplan.install.errors import InstallError
from bayplan.install.resources import counted, name_problem
from bayplan.install.values import Values

_ATTACHED = ("service", "control-plane")
_DEFAULT_SCHEDULER = "default-scheduler"


def refuse(values: Values, loaded: Loaded, asked: Mapping[str, Any]) -> None:
    """`InstallError` for what can never work; ``asked`` are the values that somebody gave."""
    _two_binders(values)
    _bind_blindly(values, loaded)
    _hen_and_egg(values, loaded)
    _needless_evictions(values)
    _certificates_of_their_own(values, loaded)
    _two_names(values, loaded, asked)
    _name_of_another(values, loaded)
    _no_resources(values)


def _two_binders(values: Values) -> None:
    if values.extender.ignorable and values.verbs.bind:
        raise InstallError(
            "ignorable with policies that bind: from Kubernetes 1.30 on the default binder would bind behind"
            " their back; leave --ignorable away, and name what they hand out with --managed-resource"
        )


def _bind_blindly(values: Values, loaded: Loaded) -> None:
    if values.verbs.bind and loaded.config.cluster.nodes_only:
        raise InstallError(
            "verbs.bind with cluster.nodesOnly: who binds pods has to follow them; take one of them away"
        )


def _hen_and_egg(values: Values, loaded: Loaded) -> None:
    """Asked by the default scheduler about every pod, we would be asked about our own."""
    entry = values.extender
    if values.shape not in _ATTACHED or entry.ignorable or entry.managed_resources:
        return
    names = counted(loaded.policies, loaded.config)
    example = f", such as --managed-resource {names[0]}" if names else ""
    other = "" if values.verbs.bind else ", or --ignorable, so that pods are scheduled without us, too"
    raise InstallError(
        f"{values.shape}: the default scheduler would wait for us with every pod, our own included: give"
        f" --managed-resource NAME for the pods that are our business{example}{other}"
    )


def _needless_evictions(values: Values) -> None:
    if values.verbs.filter and not values.verbs.preempt:
        raise InstallError(
            "verbs.filter without verbs.preempt: pods would be evicted for nodes that are then refused"
        )


def _certificates_of_their_own(values: Values, loaded: Loaded) -> None:
    """Where kube-scheduler calls without TLS, a server with it would never be understood."""
    called_by_tls = values.shape in _ATTACHED and values.tls.mode != "none"
    if loaded.config.extender.tls is not None and values.shape != "standalone" and not called_by_tls:
        raise InstallError(
            f"extender.tls: kube-scheduler calls a {values.shape} without TLS here: leave it out of the"
            " configuration, or render service or control-plane with TLS"
        )


def _two_names(values: Values, loaded: Loaded, asked: Mapping[str, Any]) -> None:
    """A scheduler whose configuration names its pods is not told another name beside it."""
    names = [profile.scheduler_name for profile in loaded.config.scheduler.profiles]
    given = asked.get("scheduler", {}).get("name")
    if values.shape == "standalone" and names and given and names != [given]:
        raise InstallError(
            f"scheduler.profiles of the configuration names the pods that are ours: {', '.join(names)};"
            f" leave --scheduler-name {given} (scheduler.name) away, or scheduler.profiles"
        )


def _name_of_another(values: Values, loaded: Loaded) -> None:
    """Two schedulers for the same pods, among them ours, which the default one places."""
    if values.shape in _ATTACHED:
        return
    profiles = loaded.config.scheduler.profiles if values.shape == "standalone" else ()
    names = [profile.scheduler_name for profile in profiles] or [values.scheduler.name]
    if _DEFAULT_SCHEDULER in names:
        raise InstallError(
            f"{_DEFAULT_SCHEDULER} is the name of the cluster's own scheduler, which places our pods, too:"
            " take another name, which pods then ask for as spec.schedulerName"
        )


def _no_resources(values: Values) -> None:
    names = [str(resource.get("name") or "") for resource in values.extender.managed_resources]
    for name in names:
        if names.count(name) > 1:
            raise InstallError(
                f"managed resource: {name!r} is there twice: kube-scheduler does not start so; name it once"
            )
    for resource in values.extender.managed_resources:
        if problem := name_problem(str(resource.get("name") or "")):
            raise InstallError(
                f"managed resource: {problem}; kube-scheduler starts only with extended resources, as pods"
                " ask for them: example.com/gpu"
            )
