"""Completes a pod of a manifest as the API server would on creation, as far as scheduling sees it.

`with_host_ports` and `defaulted` add what follows from the pod alone, `admitted` what depends on the cluster.
Requests that follow from limits are not added here: `bayplan.kube.resources` does that when it reads them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from bayplan.config.load import ConfigError
from bayplan.kube.affinity import Affinity, Expression, PodAffinity, PodAffinityTerm, Selector
from bayplan.kube.classes import LimitRange, PriorityClass, RuntimeClass, RuntimeScheduling
from bayplan.kube.pod import NO_SPEC, Pod, PodSpec
from bayplan.kube.resources import Container, Quantities, Resources
from bayplan.kube.taint import Toleration
from bayplan.snapshot.objects import Objects

_HOW = "take it into the snapshot: kubectl get nodes,pods,{kind} -A -o json"
_SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
# Five minutes, where the API server's flags do not say otherwise; a scheduler does not look at them.
_SECONDS = 300
_WITHOUT_NODE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


@dataclass(frozen=True)
class Admitted:
    """The pod as a scheduler would see it, and what could not be looked up for that."""

    pod: Pod
    notes: tuple[str, ...] = ()


def with_host_ports(spec: dict[str, Any]) -> dict[str, Any]:
    """The ``spec`` of a manifest; with ``hostNetwork`` each container port is also a host port."""
    if spec.get("hostNetwork") is not True:
        return spec
    kinds = [kind for kind in ("containers", "initContainers") if isinstance(spec.get(kind), list)]
    return {**spec, **{kind: [_with_host_ports(container) for container in spec[kind]] for kind in kinds}}


def _with_host_ports(container: Any) -> Any:
    ports = container.get("ports") if isinstance(container, dict) else None
    if not isinstance(ports, list):
        return container
    taken = [
        {**port, "hostPort": port.get("hostPort") or port.get("containerPort")}
        if isinstance(port, dict)
        else port
        for port in ports
    ]
    return {**container, "ports": taken}


def defaulted(pod: Pod) -> Pod:
    """The pod with defaults that follow from itself: label keys in terms, tolerations, a service account."""
    spec = pod.spec or NO_SPEC
    return replace(
        pod,
        spec=replace(
            spec,
            affinity=_with_label_keys(spec.affinity, pod.labels),
            tolerations=_with_default_tolerations(spec.tolerations or []),
            service_account_name=spec.service_account_name or "default",
        ),
    )


def _with_label_keys(affinity: Affinity | None, labels: Mapping[str, str]) -> Affinity | None:
    """Merge ``matchLabelKeys`` and ``mismatchLabelKeys`` into the selectors, the only part schedulers read.

    Topology spread constraints have such keys too, but schedulers read those themselves.
    """
    if affinity is None:
        return None
    return replace(
        affinity,
        pod_affinity=_merged(affinity.pod_affinity, labels),
        pod_anti_affinity=_merged(affinity.pod_anti_affinity, labels),
    )


def _merged(terms: PodAffinity | None, labels: Mapping[str, str]) -> PodAffinity | None:
    if terms is None:
        return None
    required = tuple(_merged_term(term, labels) for term in terms.required or ())
    preferred = tuple(
        replace(wish, pod_affinity_term=_merged_term(wish.pod_affinity_term, labels))
        for wish in terms.preferred or ()
    )
    return PodAffinity(required=required or None, preferred=preferred or None)


def _merged_term(term: PodAffinityTerm, labels: Mapping[str, str]) -> PodAffinityTerm:
    selector = term.label_selector
    # A term without a selector matches no pod, whatever its keys.
    if selector is None:
        return term
    keys = [(key, "In") for key in term.match_label_keys or ()]
    keys += [(key, "NotIn") for key in term.mismatch_label_keys or ()]
    # A key that the pod has no label for is skipped.
    more = tuple(Expression(key, operator, (labels[key],)) for key, operator in keys if key in labels)
    merged = Selector(selector.match_labels, (*(selector.match_expressions or ()), *more) or None)
    return replace(term, label_selector=merged)


def _with_default_tolerations(given: list[Toleration]) -> list[Toleration]:
    missing = [
        key
        for key in _WITHOUT_NODE
        if not any(one.key in (None, "", key) and one.effect in (None, "", "NoExecute") for one in given)
    ]
    return [
        *given,
        *(
            Toleration(key=key, operator="Exists", effect="NoExecute", toleration_seconds=_SECONDS)
            for key in missing
        ),
    ]


def admitted(pod: Pod, objects: Objects) -> Admitted:
    """The pod with what its cluster adds: priority, runtime overhead, default requests of its namespace.

    `ConfigError` for a pod that the API server would refuse.
    """
    notes: list[str] = []
    spec = _with_requests(pod.spec or NO_SPEC, objects.in_namespace("LimitRange", pod.namespace))
    spec = _with_priority(spec, objects.of_kind("PriorityClass"), notes)
    spec = _with_runtime(spec, objects.of_kind("RuntimeClass"), notes)
    return Admitted(replace(pod, spec=spec), tuple(notes))


def _with_requests(spec: PodSpec, ranges: tuple[LimitRange, ...]) -> PodSpec:
    """Add default requests to containers without them; of several LimitRanges the first one counts."""
    default: Quantities = {}
    for each in sorted(ranges, key=lambda one: one.name):
        for item in each.spec.limits:
            if item.type == "Container":
                default = {**(item.default_request or {}), **default}
    if not default:
        return spec

    def filled(containers: list[Container] | None) -> list[Container] | None:
        return containers and [_asking(container, default) for container in containers]

    return replace(spec, containers=filled(spec.containers), init_containers=filled(spec.init_containers))


def _asking(container: Container, default: Quantities) -> Container:
    given = container.resources or Resources()
    # A limit without a request becomes a request before LimitRanges apply.
    asked = {**default, **(given.limits or {}), **(given.requests or {})}
    return replace(container, resources=Resources(requests=asked, limits=given.limits))


def _with_priority(spec: PodSpec, classes: Mapping[str, PriorityClass], notes: list[str]) -> PodSpec:
    if spec.priority is not None:
        return spec
    name = spec.priority_class_name
    if not name:
        defaults = [one for one in classes.values() if one.global_default]
        found = min(defaults, key=lambda one: one.value, default=None)
    elif name in _SYSTEM_PRIORITIES:
        found = PriorityClass(value=_SYSTEM_PRIORITIES[name])
    else:
        found = classes.get(name)
    if found is not None:
        policy = spec.preemption_policy or found.preemption_policy
        return replace(spec, priority=found.value, preemption_policy=policy)
    if name:
        how = _HOW.format(kind="priorityclasses")
        notes.append(f"PriorityClass {name} is not known here, so the pod has priority 0; {how}")
    return spec


def _with_runtime(spec: PodSpec, classes: Mapping[str, RuntimeClass], notes: list[str]) -> PodSpec:
    name = spec.runtime_class_name
    if not name:
        return spec
    found = classes.get(name)
    if found is None:
        how = _HOW.format(kind="runtimeclasses")
        notes.append(f"RuntimeClass {name} is not known here, nor what it takes and where it is; {how}")
        return spec
    where = found.scheduling or RuntimeScheduling()
    selector = {**(spec.node_selector or {})}
    for key, value in (where.node_selector or {}).items():
        if selector.setdefault(key, value) != value:
            raise ConfigError(
                f"the API server would refuse the pod: it has nodeSelector {key}: {selector[key]}, and its"
                f" RuntimeClass {name} has {key}: {value}"
            )
    overhead = found.overhead.pod_fixed if found.overhead is not None else None
    return replace(
        spec,
        overhead=overhead or spec.overhead,
        node_selector=selector or None,
        tolerations=[*(spec.tolerations or []), *(where.tolerations or [])],
    )
