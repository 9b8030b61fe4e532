"""InterPodAffinity: a pod near the pods that it wants near, apart from those it does not, and they from it.

Filter   rejects nodes by required terms, of the pod and of placed pods; run again at bind.
Score    preferred terms of the pod and of placed pods, and required affinity of placed pods.
Reads    the placed pods, the labels that make the domains, the labels of namespaces.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

import bayplan
from bayplan import Args, NodeTable, Pod, Reason, Snapshot, Verdict
from bayplan.blocks import PodAffinity, PodKinds
from bayplan.policies.default_profile.placed_terms import Matched, PlacedTerms, Relation
from bayplan.policies.default_profile.terms import OwnTerm
from bayplan.policies.default_profile.topology import Topology

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

_CHANGES = frozenset({"pods", "nodes", "Namespace"})
AFFINITY = Reason("node(s) didn't match pod affinity rules", helped_by=_CHANGES | {"placed"})
ANTI_AFFINITY = Reason("node(s) didn't match pod anti-affinity rules", preemptible=True, helped_by=_CHANGES)
EXISTING_ANTI_AFFINITY = Reason(
    "node(s) didn't satisfy existing pods anti-affinity rules", preemptible=True, helped_by=_CHANGES
)

_NO_TERMS = PodAffinity()
_HARD = frozenset({Relation.ANTI_AFFINITY})
_WISHES = frozenset({Relation.WISH})
_WISHES_AND_AFFINITY = frozenset({Relation.WISH, Relation.AFFINITY})


class InterPodAffinityArgs(Args):
    """Settings of `InterPodAffinity`."""

    hard_pod_affinity_weight: Annotated[int, msgspec.Meta(ge=0, le=100)] = 1
    """What it counts that a placed pod's required affinity means the pod; 0 is nothing."""
    ignore_preferred_terms_of_existing_pods: bool = False
    """Leave a pod without preferred terms alone, whatever placed pods prefer."""


def unless_terms(pod: Pod, cluster: Snapshot) -> Literal["node", "cluster"]:
    """Where neither the pod nor any placed one has a term, there is nothing to look around for."""
    return "cluster" if pod.affinity_text or PlacedTerms.of(*cluster.kinds).some else "node"


@bayplan.policy
class InterPodAffinity:
    """A pod near the pods that it wants near, apart from those it does not, and they from it."""

    def __init__(self, args: InterPodAffinityArgs) -> None:
        self._hard_weight = args.hard_pod_affinity_weight
        self._ignore_others = args.ignore_preferred_terms_of_existing_pods
        self._scored = _WISHES_AND_AFFINITY if self._hard_weight else _WISHES

    @bayplan.filter(recheck=True, reads=unless_terms)
    def near_and_apart(self, pod: Pod, nodes: NodeTable, cluster: Snapshot) -> Verdict | None:
        """Refuse nodes by the required terms of the pod and of placed pods."""
        kinds, count = nodes.kinds
        near = _required(pod.affinity.pod_affinity, pod, cluster)
        apart = _required(pod.affinity.pod_anti_affinity, pod, cluster)
        existing = _placed(pod, cluster, kinds, count, relations=_HARD)
        if not near and not apart and not existing:
            return None
        verdict = AFFINITY.where(_not_near(near, pod, nodes, cluster))
        verdict |= ANTI_AFFINITY.where(_near_any(_kinds_by_key(apart, kinds, count), nodes, cluster))
        verdict |= EXISTING_ANTI_AFFINITY.where(_near_any(_having(existing, count), nodes, cluster))
        return verdict

    @bayplan.score(range=(0, 100), reads=unless_terms)
    def wishes(self, pod: Pod, nodes: NodeTable, cluster: Snapshot) -> Ints | float:
        """How much the preferred terms of the pod and of placed pods speak for each node."""
        kinds, count = cluster.nodes.tally.kinds
        near = (pod.affinity.pod_affinity or _NO_TERMS).preferred or ()
        apart = (pod.affinity.pod_anti_affinity or _NO_TERMS).preferred or ()
        if self._ignore_others and not near and not apart:
            return np.nan
        weights = _Weights(count)
        for sign, wishes in ((1, near), (-1, apart)):
            for wish in wishes:
                term = OwnTerm.of(wish.pod_affinity_term, pod, cluster)
                weights.add(term.topology_key, term.kinds(kinds, count), sign * wish.weight)
        for found in _placed(pod, cluster, kinds, count, relations=self._scored):
            weight = found.weight if found.relation is Relation.WISH else self._hard_weight
            weights.add_each(found.topology_key, found.kinds, weight)
        return weights.scores(nodes, cluster)


class _Weights:
    """What a pod of each kind speaks for or against the domain that it is in, by topology key."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._by_key: dict[str, tuple[Ints, Bools]] = {}

    def add(self, key: str, chosen: Bools, weight: int) -> None:
        """All of these kinds weigh so much more."""
        weights, spoke = self._of(key)
        weights[chosen] += weight
        spoke |= chosen

    def add_each(self, key: str, numbers: Ints, weight: int) -> None:
        """Each of these kinds weighs so much more, one that is there twice twice."""
        weights, spoke = self._of(key)
        np.add.at(weights, numbers, weight)
        spoke[numbers] = True

    def scores(self, nodes: NodeTable, cluster: Snapshot) -> Ints | float:
        """0 to 100 a node; NaN where no pod in any domain spoke, for or against."""
        if not self._by_key or not len(nodes):
            return np.nan
        tally, everywhere = cluster.nodes.tally, len(cluster.nodes)
        raw = np.zeros(len(nodes), dtype=np.int64)
        any_opinion = False
        for key, (weights, spoke) in self._by_key.items():
            topology = Topology.of(key, nodes, cluster)
            totals = topology.totals(tally.weigh(weights, everywhere))
            if not any_opinion:
                # Weights that cancel each other out are an opinion too.
                spoken = totals if totals.any() else topology.totals(tally.weigh(spoke, everywhere))
                any_opinion = bool(spoken.any())
            raw += totals[topology.here]
        return _stretched(raw) if any_opinion else np.nan

    def _of(self, key: str) -> tuple[Ints, Bools]:
        known = self._by_key.get(key)
        if known is None:
            known = (np.zeros(self._count, dtype=np.int64), np.zeros(self._count, dtype=np.bool_))
            self._by_key[key] = known
        return known


def _stretched(raw: Ints) -> Ints:
    """The lowest becomes 0 and the highest 100; all 0 where they are equal. Fractions are cut off."""
    lowest, highest = raw.min(), raw.max()
    if lowest == highest:
        return np.zeros(len(raw), dtype=np.int64)
    stretched: Ints = (100.0 * ((raw - lowest) / float(highest - lowest))).astype(np.int64)
    return stretched


def _required(terms: PodAffinity | None, pod: Pod, cluster: Snapshot) -> list[OwnTerm]:
    return [OwnTerm.of(term, pod, cluster) for term in (terms or _NO_TERMS).required or ()]


def _placed(
    pod: Pod, cluster: Snapshot, kinds: PodKinds, count: int, *, relations: frozenset[Relation]
) -> list[Matched]:
    labels: Mapping[str, str] = cluster.objects.namespace_labels.get(pod.namespace, {})
    return PlacedTerms.of(kinds, count).meaning(pod, labels, relations=relations, count=count)


def _not_near(terms: Sequence[OwnTerm], pod: Pod, nodes: NodeTable, cluster: Snapshot) -> Bools:
    """The nodes that lack a label, or in one of whose domains there is no pod that all terms mean."""
    if not terms:
        return np.zeros(len(nodes), dtype=np.bool_)
    kinds, count = nodes.kinds
    around = nodes.around(np.logical_and.reduce([term.kinds(kinds, count) for term in terms]))
    lacking = np.zeros(len(nodes), dtype=np.bool_)
    alone = np.zeros(len(nodes), dtype=np.bool_)
    nobody = np.ones(len(nodes), dtype=np.bool_)
    for key in dict.fromkeys(term.topology_key for term in terms):
        topology = Topology.of(key, nodes, cluster)
        totals = topology.totals(around.everywhere)
        nobody &= around.here(totals.sum(keepdims=True), topology.inside) == 0
        lacking |= ~topology.inside
        # Nobody is in the domain of a node that has none.
        alone |= around.here(totals[topology.here], topology.inside) == 0
    if not all(term.matches(pod) for term in terms):
        return alone
    # The first pod of a group that wants to be together has nobody to go to yet.
    return np.where(nobody, lacking, alone)


def _near_any(kinds_by_key: Mapping[str, Bools], nodes: NodeTable, cluster: Snapshot) -> Bools:
    """The nodes in one of whose domains there is a pod of these kinds."""
    found = np.zeros(len(nodes), dtype=np.bool_)
    for key, chosen in kinds_by_key.items():
        around = nodes.around(chosen)
        topology = Topology.of(key, nodes, cluster)
        totals = topology.totals(around.everywhere)
        found |= around.here(totals[topology.here], topology.inside) > 0
    return found


def _kinds_by_key(terms: Sequence[OwnTerm], kinds: PodKinds, count: int) -> dict[str, Bools]:
    """By topology key the kinds that one of the terms means."""
    found: dict[str, Bools] = {}
    for term in terms:
        chosen = term.kinds(kinds, count)
        found[term.topology_key] = found.get(term.topology_key, False) | chosen
    return found


def _having(terms: Sequence[Matched], count: int) -> dict[str, Bools]:
    """By topology key the kinds that have one of the terms."""
    found: dict[str, Bools] = {}
    for term in terms:
        chosen = found.setdefault(term.topology_key, np.zeros(count, dtype=np.bool_))
        chosen[term.kinds] = True
    return found
