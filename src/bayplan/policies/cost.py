"""Cost: what nodes cost decides where pods go.

Filter   refuses what a namespace's budget does not pay for, run again at bind; the wrong kind of capacity;
         nodes without a price, if asked to.
Prefer   nodes of the capacity that the pod's class prefers; nodes that are not dearer than ``avoidAbove``.
Score    the pod's own cost on the node, lower is better; or, to fill what is paid for, nodes in use first.
Reads    prices from a label, a table or a source; the placed pods, for budgets and filling.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

import bayplan
from bayplan import Args, NodeTable, Pod, Reason, Score, Snapshot, Verdict, blocks
from bayplan.blocks import Scope
from bayplan.policies.node_prices import Capacity, Floats, NodePrices, Price, PriceArgs
from bayplan.policies.shares import Ints

_PODS_AND_NODES = frozenset({"pods", "nodes"})
_NODES = frozenset({"nodes"})
SPENT = Reason(
    "namespace budget is spent",
    detail="{spent:.4g} of {budget:.4g} an hour are spent, {cost:.4g} more here",
    preemptible=True,
    helped_by=_PODS_AND_NODES,
    advice="pods of the namespace would have to go; or request less, or raise its budget",
)
WRONG_CAPACITY = {
    "spot": Reason("pod needs a spot node", helped_by=_NODES),
    "on-demand": Reason("pod needs an on-demand node", helped_by=_NODES),
}
BETTER_CAPACITY = {
    "spot": Reason("pod prefers a spot node", helped_by=_PODS_AND_NODES),
    "on-demand": Reason("pod prefers an on-demand node", helped_by=_PODS_AND_NODES),
}
NO_PRICE = Reason(
    "price of the node is not known",
    helped_by=_NODES,
    advice="give the node a price, or say `onMissing: pass`",
)
EXPENSIVE = Reason(
    "node is expensive, and cheaper ones are free",
    detail="{price:.4g} an hour, avoided above {limit:.4g}",
    helped_by=_PODS_AND_NODES,
)
# Ten pods at 0.1 may cost 1.0 together, which floats cannot add up exactly.
_ROUNDING = 1 + 1e-9


class Budget(Args):
    """What each of some namespaces may cost."""

    namespaces: Annotated[tuple[Annotated[str, msgspec.Meta(min_length=1)], ...], msgspec.Meta(min_length=1)]
    """Names of namespaces, with ``*`` and ``?``; each has this budget for itself."""
    per_hour: Price
    """What its pods may cost together in an hour."""


class CostArgs(PriceArgs):
    """Settings of `Cost`."""

    avoid_above: Price | None = None
    """Nodes that cost more are left alone while others will do."""
    fill: bool = False
    """Nodes that are in use are paid for: prefer them, the fullest first, and then the cheapest empty one."""
    daemons: Scope | None = Scope(namespaces=("kube-system",))
    """Pods that run everywhere anyway: a node with no others is empty."""
    budgets: tuple[Budget, ...] = ()
    """Every budget that a pod's namespace is in is kept."""

    def __post_init__(self) -> None:
        PriceArgs.__post_init__(self)
        if self.daemons == Scope():
            raise ValueError("`daemons: {}` is all pods; name them, or say `daemons: null`")
        if not (self.priced or self.capacity_type.classes):
            raise ValueError("give `priceLabel`, `table` or `priceSource`, or `classes` of `capacityType`")
        about_prices = self.avoid_above is not None or self.fill or self.budgets
        if not self.priced and (about_prices or self.on_missing != "pass"):
            raise ValueError("no prices are known: give `priceLabel`, `table` or `priceSource`")


@bayplan.policy
class Cost:
    """What nodes cost decides where pods go."""

    def __init__(self, args: CostArgs) -> None:
        self._args = args
        self._prices = NodePrices(args)
        # Named here, so that a source that is not configured is an error when the policy is loaded.
        self._columns = self._prices.columns
        self._spent = replace(SPENT, helped_by=SPENT.helped_by | self._prices.topics)
        self._no_price = replace(NO_PRICE, helped_by=NO_PRICE.helped_by | self._prices.topics)
        self._budgets = [(Scope(namespaces=one.namespaces), one.per_hour) for one in args.budgets]
        self._daemons = None if args.daemons is None else blocks.chosen_by(args.daemons)

    @bayplan.filter
    def usable(self, pod: Pod, nodes: NodeTable, cluster: Snapshot) -> Verdict | None:
        """Nodes of the capacity that the pod must have, with a price if they need one."""
        verdict = None
        if (required := self._wanted(pod)[1]) is not None:
            verdict = WRONG_CAPACITY[required].where(self._other_than(required, nodes))
        if self._args.on_missing == "refuse":
            unknown = self._no_price.where(np.isnan(self._prices.of(nodes, cluster)))
            verdict = unknown if verdict is None else verdict | unknown
        return verdict

    @bayplan.filter(recheck=True)
    def budget(self, pod: Pod, nodes: NodeTable, cluster: Snapshot) -> Verdict | None:
        """What the pods of the namespace cost together, with this one, is in its budget."""
        limits = [most for scope, most in self._budgets if scope.matches(pod) or not nodes.pods_known]
        if not limits:
            return None
        mine = bayplan.in_namespace(pod.namespace)
        every = cluster.nodes
        held = self._shares(every, lambda resource: every.sum(resource, mine))
        spent = float(np.nansum(held * self._prices.of(every, cluster)))
        cost = self._shares(nodes, pod.request) * self._prices.of(nodes, cluster)
        most = min(limits)
        over = (cost > 0) & (spent + cost > most * _ROUNDING)
        return self._spent.where(over, spent=spent, budget=most, cost=cost)

    @bayplan.prefer
    def capacity(self, pod: Pod, nodes: NodeTable) -> Verdict | None:
        """Nodes of the capacity that the pod's class prefers."""
        preferred = self._wanted(pod)[0]
        if preferred is None:
            return None
        return BETTER_CAPACITY[preferred].where(self._other_than(preferred, nodes))

    @bayplan.prefer
    def affordable(self, nodes: NodeTable, cluster: Snapshot) -> Verdict | None:
        """Nodes that are not expensive."""
        limit = self._args.avoid_above
        if limit is None:
            return None
        prices = self._prices.of(nodes, cluster)
        return EXPENSIVE.where(prices > limit, price=prices, limit=limit)

    @bayplan.score(range=(0, 100))
    def cheapest(self, pod: Pod, nodes: NodeTable, cluster: Snapshot) -> Score:
        """The cheapest node has 100, one that costs twice as much 50."""
        prices = self._prices.of(nodes, cluster)
        if self._args.fill:
            return self._filling(pod, nodes, prices=prices)
        shares = self._shares(nodes, pod.request)
        # A pod that requests nothing costs nothing anywhere; nodes still do.
        cost = prices * shares if shares.any() else prices
        return Score(100.0 * _ratio(cost), detail="{cost:.4g} an hour", cost=cost)

    def _filling(self, pod: Pod, nodes: NodeTable, *, prices: Floats) -> Score:
        """Nodes in use have 50 to 100, the fuller the better; empty ones 0 to 50, the cheaper the better."""
        pods = nodes["pods.requested"]
        if self._daemons is not None:
            # Counting the daemons alone is cheaper: they are few, and the total of all pods is known.
            pods = pods - nodes.count(self._daemons)
        in_use = pods > 0
        resources = self._args.resources
        full = blocks.weighted_mean(blocks.fractions(pod, nodes, resources), resources)
        more = np.where(in_use, 0.0, prices)
        empty = _ratio(np.where(in_use, np.nan, prices))
        scores = np.where(in_use, 50.0 + 50.0 * full, 50.0 * empty)
        return Score(scores, detail="{more:.4g} an hour more, {full:.0%} full", more=more, full=full)

    def _shares(self, nodes: NodeTable, requested: Callable[[str], Ints | int]) -> Floats:
        """The share of each node that is requested: the weighted mean over the node's resources."""
        total, weights = np.zeros(len(nodes)), np.zeros(len(nodes))
        for resource in self._args.resources:
            allocatable = nodes[f"{resource.name}.allocatable"]
            has = resource.weight * (allocatable > 0)
            # Dividing all elements is several times faster than dividing with a mask.
            total += has * (requested(resource.name) / np.maximum(allocatable, 1))
            weights += has
        shares: Floats = total / np.where(weights > 0, weights, 1.0)
        return shares

    def _wanted(self, pod: Pod) -> tuple[Capacity | None, Capacity | None]:
        """What the pod's class prefers, and what it requires."""
        classes = self._args.capacity_type.classes
        found = next((one for one in classes if one.pods.matches(pod)), None)
        return (None, None) if found is None else (found.prefer, found.require)

    def _other_than(self, capacity: Capacity, nodes: NodeTable) -> NDArray[np.bool_]:
        spot = self._prices.spot(nodes)
        return ~spot if capacity == "spot" else spot


def _ratio(costs: Floats) -> Floats:
    """The lowest cost over each: 1 for the cheapest, 0.5 for twice as much; NaN where it is not known."""
    lowest = np.fmin.reduce(costs, initial=np.inf)
    # A cost of 0 is as cheap as can be; NaN stays NaN.
    free = costs <= 0
    ratio: Floats = lowest / np.where(free, 1.0, costs)
    return np.where(free, 1.0, ratio)
