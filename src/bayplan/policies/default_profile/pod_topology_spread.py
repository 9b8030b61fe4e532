"""PodTopologySpread: pods of a kind evenly over zones, hosts or whatever domains a constraint names.

Filter   rejects domains that are ``maxSkew`` ahead of the emptiest, and nodes in none; run again at bind.
Score    fewer pods of the kind in the node's domains is better, for constraints that may be broken.
Reads    the placed pods of the pod's namespace, the labels that make the domains, node affinity, taints; for
         the default constraints the Services and controllers that select the pod.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

import bayplan
from bayplan import Args, NodeTable, Pod, Reason, Snapshot, Verdict
from bayplan.blocks import Around, Selector
from bayplan.policies.default_profile.spread_constraints import (
    HOSTNAME,
    SYSTEM_DEFAULTS,
    Constraint,
    DefaultConstraint,
    belongs,
    constraints_of,
    own_constraints,
)
from bayplan.policies.default_profile.terms import chosen_kinds
from bayplan.policies.default_profile.topology import Topology

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_NO_OTHER = np.iinfo(np.int64).max
_CHANGES = frozenset({"pods", "nodes"})
_TEXT = "node(s) didn't match pod topology spread constraints"
UNEVEN = Reason(_TEXT, preemptible=True, helped_by=_CHANGES | {"placed"})
OUTSIDE = Reason(f"{_TEXT} (missing required label)", helped_by=frozenset({"nodes"}))


class PodTopologySpreadArgs(Args):
    """Settings of `PodTopologySpread`."""

    default_constraints: tuple[DefaultConstraint, ...] = ()
    """For pods without constraints, with ``defaultingType: List``."""
    defaulting_type: Literal["System", "List"] = "System"
    """``System`` spreads over hosts and zones as far as it can; ``List`` takes ``defaultConstraints``."""

    def __post_init__(self) -> None:
        if self.defaulting_type == "System" and self.default_constraints:
            raise ValueError("`defaultConstraints` are for `defaultingType: List`; set it, or leave them out")
        told = [(one.topology_key, one.when_unsatisfiable) for one in self.default_constraints]
        twice = next((one for one in told if told.count(one) > 1), None)
        if twice is not None:
            raise ValueError(f"`defaultConstraints`: {twice[0]} with {twice[1]} is there twice")


def unless_spread(pod: Pod, cluster: Snapshot) -> Literal["node", "cluster"]:
    """A pod without constraints, and with nothing that the default ones could mean, goes anywhere."""
    return "cluster" if own_constraints(pod) or belongs(pod, cluster) else "node"


@bayplan.policy
class PodTopologySpread:
    """Pods of a kind evenly over zones, hosts or whatever domains a constraint names."""

    def __init__(self, args: PodTopologySpreadArgs) -> None:
        self._system = args.defaulting_type == "System"
        self._defaults = SYSTEM_DEFAULTS if self._system else args.default_constraints

    @bayplan.filter(recheck=True, reads=unless_spread)
    def even(self, pod: Pod, nodes: NodeTable, cluster: Snapshot) -> Verdict | None:
        """Refuse domains that are too far ahead."""
        counts = _Counts(pod, nodes, cluster)
        constraints = constraints_of(pod, cluster, defaults=self._defaults, action="DoNotSchedule")
        if not constraints:
            return None
        topologies = [Topology.of(one.topology_key, nodes, cluster) for one in constraints]
        counted = _everywhere_inside(topologies)
        codes = np.zeros(len(nodes), dtype=np.int16)
        for one, topology in zip(constraints, topologies, strict=True):
            ahead = _ahead(one, topology, counts, counted)
            # Constraint by constraint: a node keeps the first reason that it gets.
            found = np.where(topology.inside, ahead.astype(np.int16), np.int16(2))
            codes = np.where(codes == 0, found, codes)
        return Verdict(codes, (UNEVEN, OUTSIDE))

    @bayplan.score(range=(0, 100), reads=unless_spread)
    def evenly(self, pod: Pod, nodes: NodeTable, cluster: Snapshot) -> Ints | float:
        """Domains with fewer pods of the kind are better; a node outside of one is worst."""
        counts = _Counts(pod, nodes, cluster)
        constraints = constraints_of(pod, cluster, defaults=self._defaults, action="ScheduleAnyway")
        if not constraints or not len(nodes):
            return np.nan
        topologies = [Topology.of(one.topology_key, nodes, cluster) for one in constraints]
        if own_constraints(pod) or not self._system:
            scored = np.logical_and.reduce([topology.inside for topology in topologies])
            counted = _everywhere_inside(topologies)
        else:
            # Clusters without zones are to be spread over their hosts nevertheless.
            scored = np.ones(len(nodes), dtype=np.bool_)
            counted = np.ones(len(cluster.nodes), dtype=np.bool_)
        raw = np.zeros(len(nodes))
        for one, topology in zip(constraints, topologies, strict=True):
            raw += _crowd(one, topology, counts, counted, scored=scored, nodes=nodes)
        return _turned(_rounded(raw), scored)


class _Counts:
    """Pods on each node of the cluster that a selector means; constraints often have the same one."""

    def __init__(self, pod: Pod, nodes: NodeTable, cluster: Snapshot) -> None:
        self.pod = pod
        self.cluster = cluster
        self.nodes = nodes
        self._kinds = nodes.kinds
        self._known: dict[Selector | None, Around] = {}

    def of(self, constraint: Constraint) -> Around:
        """How many are on each node; of the pod's namespace, without those that are being deleted."""
        known = self._known.get(constraint.selector)
        if known is None:
            known = self._known[constraint.selector] = self._counted(constraint)
        return known

    def _counted(self, constraint: Constraint) -> Around:
        if not constraint.counts_pods:
            return Around(np.zeros(len(self.cluster.nodes), dtype=np.int64))
        kinds, count = self._kinds
        chosen = chosen_kinds(constraint.selector, kinds, count)
        chosen &= kinds.namespaces(count) == self.pod.namespace
        chosen &= ~kinds.terminating(count)
        return self.nodes.around(chosen)


def _everywhere_inside(topologies: Sequence[Topology]) -> Bools:
    """The nodes of the cluster that are in a domain of each."""
    inside: Bools = np.logical_and.reduce([topology.everywhere >= 0 for topology in topologies])
    return inside


def _ahead(one: Constraint, topology: Topology, counts: _Counts, counted: Bools) -> Bools:
    """The nodes in domains that would be more than ``maxSkew`` ahead with the pod in them."""
    eligible = one.eligible(counts.pod, counts.cluster.nodes)
    counted = counted if eligible is None else counted & eligible
    around = counts.of(one)
    there = topology.totals(around.everywhere, counted)
    here = around.here(there[topology.here], counts.nodes.ours(counted))
    domains = np.bincount(topology.everywhere[counted], minlength=topology.domains + 1) > 0
    found = int(np.count_nonzero(domains))
    # No domain at all is fewer than one, which is the least that can be asked for.
    lowest: Ints | int = 0
    if found and found >= one.min_domains:
        lowest = int(there[domains].min())
        if around.change is not None:
            others = _lowest_of_others(there, domains)[topology.here]
            lowest = np.where(domains[topology.here], np.minimum(others, here), lowest)
    ahead: Bools = here + int(one.selects(counts.pod)) - lowest > one.max_skew
    return ahead


def _lowest_of_others(there: Ints, domains: Bools) -> Ints:
    """For each domain the fewest pods that there are in one of the others."""
    lowest = int(there[domains].min())
    alone = np.count_nonzero(there[domains] == lowest) == 1
    above = there[domains & (there > lowest)]
    second = (int(above.min()) if above.size else _NO_OTHER) if alone else lowest
    return np.where(there == lowest, second, lowest)


def _crowd(
    one: Constraint, topology: Topology, counts: _Counts, counted: Bools, *, scored: Bools, nodes: NodeTable
) -> Floats:
    """How many pods of the kind there are about each node, weighed by how many domains there are."""
    if one.topology_key == HOSTNAME:
        # Each node by itself, whether or not it is one that counts.
        size, there = int(np.count_nonzero(scored)), nodes.ours(counts.of(one).everywhere)
    else:
        eligible = one.eligible(counts.pod, counts.cluster.nodes)
        counted = counted if eligible is None else counted & eligible
        # As kube-scheduler has it, nodes without a zone are in one together.
        named = topology.with_unnamed()
        size, there = named.among(scored), named.totals(counts.of(one).everywhere, counted)[named.here]
    crowd = there * math.log(size + 2) + (one.max_skew - 1)
    return np.where(topology.inside, crowd, 0.0)


def _rounded(raw: Floats) -> Ints:
    """To the nearest whole number, halves up: NumPy's own rounding takes them to the even one."""
    whole = np.floor(raw)
    return (whole + (raw - whole >= 0.5)).astype(np.int64)


def _turned(raw: Ints, scored: Bools) -> Ints:
    """The more pods the lower the score, 0 to 100; 0 for nodes that are not scored."""
    every = bool(scored.all())
    among = raw if every else raw[scored]
    highest = int(among.max(initial=0))
    if highest == 0:
        return np.where(scored, 100, 0)
    turned = 100 * (highest + int(among.min()) - raw) // highest
    return turned if every else np.where(scored, turned, 0)
