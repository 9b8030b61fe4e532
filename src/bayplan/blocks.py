"""Building blocks for policies with arguments: groups of pods, domains, shares of resources.

What the built-in policies share, and what your own may use. `bayplan` itself stays small: these are the names
that most policies do without.
"""

from bayplan.authoring.fractions import ResourceArgs, ResourceWeight, fractions, weighted_mean
from bayplan.authoring.group import OtherPods, PodGroup, chosen_by
from bayplan.authoring.scope import PolicyScope, Scope
from bayplan.authoring.typo import mistyped
from bayplan.kube.quantity import amount
from bayplan.kube.selector import LabelSelector
from bayplan.snapshot.conditions import PodCondition
from bayplan.snapshot.domains import domain

__all__ = [
    "LabelSelector",
    "OtherPods",
    "PodCondition",
    "PodGroup",
    "PolicyScope",
    "ResourceArgs",
    "ResourceWeight",
    "Scope",
    "amount",
    "chosen_by",
    "domain",
    "fractions",
    "mistyped",
    "weighted_mean",
]
