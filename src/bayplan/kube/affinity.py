"""Affinity and topology spread of a pod, as the API server sends them.

Everything may be missing and no value is checked: these come with every pod of a cluster, and one that a
newer API server allows must not keep a whole list from being read.
"""

from collections.abc import Mapping

from msgspec import Struct

# Kubernetes spells them out; read here they are plain.
_DURING = "DuringSchedulingIgnoredDuringExecution"


class Expression(Struct, frozen=True, gc=False, omit_defaults=True):
    """One line of ``matchExpressions`` or ``matchFields``."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class Selector(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """A label selector: all parts must match; an empty selector matches everything."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[Expression, ...] | None = None

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected; an unknown operator selects nothing."""
        if any(labels.get(key) != value for key, value in (self.match_labels or {}).items()):
            return False
        return all(selects(one, labels) for one in self.match_expressions or ())


def selects(expression: Expression, labels: Mapping[str, str]) -> bool:
    """Whether labels satisfy one expression of a label selector; a missing label satisfies ``NotIn``."""
    value, wanted = labels.get(expression.key), expression.values or ()
    match expression.operator:
        case "In":
            return value in wanted
        case "NotIn":
            return value is None or value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False


class NodeSelectorTerm(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """Expressions over a node's labels and fields, of which all must hold; an empty term matches nothing."""

    match_expressions: tuple[Expression, ...] | None = None
    match_fields: tuple[Expression, ...] | None = None


class NodeSelector(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """Terms of which one must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] | None = None


class PreferredTerm(Struct, frozen=True, gc=False, omit_defaults=True):
    """A preferred node selector term, with its weight."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Struct, frozen=True, gc=False, omit_defaults=True, rename=lambda name: name + _DURING):
    """``spec.affinity.nodeAffinity``."""

    required: NodeSelector | None = None
    preferred: tuple[PreferredTerm, ...] | None = None


class PodAffinityTerm(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """A pod affinity term: other pods, and the topology key of nodes."""

    topology_key: str = ""
    label_selector: Selector | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: Selector | None = None
    match_label_keys: tuple[str, ...] | None = None
    mismatch_label_keys: tuple[str, ...] | None = None


class WeightedPodAffinityTerm(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """A preferred pod affinity term, with its weight."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Struct, frozen=True, gc=False, omit_defaults=True, rename=lambda name: name + _DURING):
    """``spec.affinity.podAffinity``, or ``podAntiAffinity``."""

    required: tuple[PodAffinityTerm, ...] | None = None
    preferred: tuple[WeightedPodAffinityTerm, ...] | None = None


class Affinity(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """``spec.affinity``."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """One line of ``spec.topologySpreadConstraints``."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: Selector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] | None = None
