"""Spread constraints of a pod: its own, or the defaults for pods that a Service or a controller selects."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from bayplan import Args, NodeTable, Pod, Snapshot, Strings, Taint
from bayplan.blocks import TAINTS, Expression, Selector, TopologySpreadConstraint, selected, with_labels
from bayplan.policies.default_profile.terms import plain

Bools = NDArray[np.bool_]

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"

Action = Literal["DoNotSchedule", "ScheduleAnyway"]
NodeInclusion = Literal["Honor", "Ignore"]
_KEEPS_AWAY = ("NoSchedule", "NoExecute")
_EMPTY = Selector(match_expressions=())
_CONTROLLERS = {"ReplicationController": "v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1"}


class DefaultConstraint(Args):
    """A constraint for pods that have none; the pods that it counts follow from who selects the pod."""

    max_skew: Annotated[int, msgspec.Meta(ge=1)]
    """How many pods more than the emptiest domain another may have."""
    topology_key: Annotated[str, msgspec.Meta(min_length=1)]
    """The label of nodes that makes the domains."""
    when_unsatisfiable: Action
    """Whether it is a rule or a wish."""
    min_domains: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """With fewer domains than this, the emptiest counts as empty."""
    node_affinity_policy: NodeInclusion | None = None
    """Whether nodes that the pod's node affinity rules out do not count; ``Honor`` where not said."""
    node_taints_policy: NodeInclusion | None = None
    """Whether nodes with taints that the pod does not tolerate do not count; ``Ignore`` where not said."""


@dataclass(frozen=True)
class Constraint:
    """A constraint of one pod, with everything that was left out filled in."""

    topology_key: str
    max_skew: int
    selector: Selector | None
    """In its `plain` spelling; ``None`` selects no pod."""
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False

    def selects(self, pod: Pod) -> bool:
        """Whether the pod itself is one of those that are spread."""
        return self.selector is not None and self.selector.matches(pod.labels)

    @property
    def counts_pods(self) -> bool:
        """Whether placed pods are counted at all; an empty selector matches all pods, and counts none."""
        return self.selector is not None and self.selector != _EMPTY

    def eligible(self, pod: Pod, nodes: NodeTable) -> Bools | None:
        """The nodes that count for this pod; ``None`` for all of them."""
        chosen: Bools | None = None
        if self.honors_affinity:
            chosen = _that_affinity_allows(pod, nodes)
        if self.honors_taints:
            tolerated = _tolerated(pod, nodes)
            chosen = tolerated if chosen is None else chosen & tolerated
        return chosen


SYSTEM_DEFAULTS = (
    DefaultConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable="ScheduleAnyway"),
    DefaultConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable="ScheduleAnyway"),
)


def own_constraints(pod: Pod) -> Sequence[TopologySpreadConstraint]:
    """The constraints that the pod's spec has."""
    return (pod.spec.topology_spread_constraints if pod.spec else None) or ()


def constraints_of(
    pod: Pod, cluster: Snapshot, *, defaults: Sequence[DefaultConstraint], action: Action
) -> list[Constraint]:
    """The constraints of that action: the pod's own, or the defaults where it has none of any action."""
    own = own_constraints(pod)
    if own:
        return [_filled(one, pod) for one in own if one.when_unsatisfiable == action]
    found = [one for one in defaults if one.when_unsatisfiable == action]
    selector = default_selector(pod, cluster) if found else _EMPTY
    if selector == _EMPTY:
        return []
    return [replace(_completed(one), selector=selector) for one in found]


def belongs(pod: Pod, cluster: Snapshot) -> bool:
    """Whether there are pods that belong with this one, so that default constraints mean it."""
    return default_selector(pod, cluster) != _EMPTY


def default_selector(pod: Pod, cluster: Snapshot) -> Selector:
    """The pods that belong with this one: what its Services and its controller select, all at once."""
    objects = cluster.objects
    wanted: dict[str, str] = {}
    for service in objects.services_of(pod.namespace, pod.labels):
        wanted.update(service.spec.selector or {})
    owner = pod.owner
    expressions: tuple[Expression, ...] = ()
    # What keeps no apiVersion, such as a file written by hand, means the usual one.
    if (
        owner is not None
        and owner.kind in _CONTROLLERS
        and owner.api_version
        in (
            "",
            _CONTROLLERS[owner.kind],
        )
    ):
        controller = objects.of_kind(owner.kind).get(f"{pod.namespace}/{owner.name}")
        if controller is not None and owner.kind == "ReplicationController":
            wanted.update(controller.spec.selector or {})
        elif controller is not None:
            expressions = _expressions(controller.spec.selector)
    return Selector(match_expressions=_expressions(Selector(wanted, expressions)))


def _expressions(selector: Selector | None) -> tuple[Expression, ...]:
    found = plain(selector)
    return () if found is None else found.match_expressions or ()


def _filled(one: TopologySpreadConstraint, pod: Pod) -> Constraint:
    selector = one.label_selector
    if selector is not None and one.match_label_keys:
        same = {key: pod.labels[key] for key in one.match_label_keys if key in pod.labels}
        more = tuple(Expression(key, "In", (value,)) for key, value in same.items())
        selector = Selector(selector.match_labels, (*(selector.match_expressions or ()), *more))
    return replace(_completed(one), selector=plain(selector))


def _completed(one: TopologySpreadConstraint | DefaultConstraint) -> Constraint:
    return Constraint(
        topology_key=one.topology_key,
        max_skew=one.max_skew,
        selector=None,
        min_domains=1 if one.min_domains is None else one.min_domains,
        honors_affinity=(one.node_affinity_policy or "Honor") == "Honor",
        honors_taints=(one.node_taints_policy or "Ignore") == "Honor",
    )


def _that_affinity_allows(pod: Pod, nodes: NodeTable) -> Bools | None:
    affinity = pod.affinity.node_affinity
    required = affinity.required if affinity is not None else None
    if not pod.node_selector and required is None:
        return None
    chosen = with_labels(nodes, pod.node_selector)
    return chosen if required is None else chosen & selected(nodes, required)


def _tolerated(pod: Pod, nodes: NodeTable) -> Bools:
    """The nodes without a taint that keeps the pod away; worked out once for each set of taints."""
    taints: Strings = nodes[TAINTS]
    kept_away = [text for text in taints.values if _keeps_away(pod, TAINTS.decoded(text))]
    return ~taints.isin(kept_away)


def _keeps_away(pod: Pod, taints: Iterable[Taint]) -> bool:
    return any(taint.effect in _KEEPS_AWAY and not pod.tolerates(taint) for taint in taints)
