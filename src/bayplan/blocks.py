"""Building blocks for policies with arguments: groups of pods, domains, shares of resources.

What the built-in policies share, and what your own may use. `bayplan` itself stays small: these are the names
that most policies do without.
"""

from bayplan.authoring.fractions import ResourceArgs, ResourceWeight, fractions, weighted_mean
from bayplan.authoring.group import OtherPods, PodGroup, chosen_by
from bayplan.authoring.scope import PolicyScope, Scope
from bayplan.authoring.typo import mistyped
from bayplan.kube.affinity import (
    Expression,
    NodeSelector,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PreferredTerm,
    Selector,
    TopologySpreadConstraint,
)
from bayplan.kube.pod import HostPort
from bayplan.kube.quantity import amount
from bayplan.kube.resources import SMALL_CONTAINER, pod_requests
from bayplan.kube.selector import LabelSelector
from bayplan.kube.volumes import PersistentVolume, PersistentVolumeClaim, Volume
from bayplan.kube.written import unit_of
from bayplan.kube.yaml import suggest
from bayplan.snapshot.around import Around
from bayplan.snapshot.columns import PodColumn
from bayplan.snapshot.conditions import PodCondition
from bayplan.snapshot.domains import domain
from bayplan.snapshot.node_selection import matching, named, selected, with_labels
from bayplan.snapshot.objects import Objects, ObjectsOfKind
from bayplan.snapshot.taints import TAINTS
from bayplan.snapshot.tally import PodKind, PodKinds

__all__ = [
    "SMALL_CONTAINER",
    "TAINTS",
    "Around",
    "Expression",
    "HostPort",
    "LabelSelector",
    "NodeSelector",
    "NodeSelectorTerm",
    "Objects",
    "ObjectsOfKind",
    "OtherPods",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PodAffinity",
    "PodAffinityTerm",
    "PodColumn",
    "PodCondition",
    "PodGroup",
    "PodKind",
    "PodKinds",
    "PolicyScope",
    "PreferredTerm",
    "ResourceArgs",
    "ResourceWeight",
    "Scope",
    "Selector",
    "TopologySpreadConstraint",
    "Volume",
    "amount",
    "chosen_by",
    "domain",
    "fractions",
    "matching",
    "mistyped",
    "named",
    "pod_requests",
    "selected",
    "suggest",
    "unit_of",
    "weighted_mean",
    "with_labels",
]
