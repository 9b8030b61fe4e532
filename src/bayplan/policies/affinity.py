"""Affinity: which nodes and which other pods a pod goes with, by any relation of labels.

Filter   refuses nodes by the hard rules; those between pods are run again at bind.
Score    the weighted mean of how well the node keeps the soft rules, in percent.
Reads    labels of the pod and the nodes; the placed pods, where a rule is about pods.
"""

from collections.abc import Iterable
from functools import lru_cache, reduce
from operator import or_
from typing import Annotated, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

import bayplan
from bayplan import Args, Label, NodeAnnotation, NodeTable, Pod, Reason, Strings, Verdict, blocks
from bayplan.blocks import OtherPods, Scope

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Missing = Literal["pass", "refuse"]
Text = Annotated[str, msgspec.Meta(min_length=1)]

_ORDER = {"Lt": np.less, "Lte": np.less_equal, "Gt": np.greater, "Gte": np.greater_equal}
_NEGATIVE = ("NotEqual", "NotIn")


class OnMissing(Args):
    """What happens where only one of the two has its label; where neither has, the rule is silent."""

    pod: Missing = "pass"
    """A pod without the label, on nodes that have theirs; ``refuse`` keeps those nodes for pods with it."""
    node: Missing | None = None
    """A pod with the label, on nodes without theirs: refused, unless the operator is a Not."""


class AffinityRule(Args):
    """One rule: a pod's label against a node's, or a pod with, not with or near other pods."""

    pods: Scope = Scope()
    """Which pods the rule is for; all where it is left out."""
    pod_label: Text | None = None
    """A label of the pod, which is compared with one of the node."""
    node_label: Text | None = None
    """The node's label; the same key where it is left out."""
    node_annotation: Text | None = None
    """An annotation of the node instead of a label."""
    operator: Literal["Equal", "NotEqual", "In", "NotIn", "Lt", "Lte", "Gt", "Gte"] = "Equal"
    """How they are compared, read from pod to node: the pod's value is ``In`` the node's list."""
    separator: Text = ","
    """What parts the node's list, for ``In`` and ``NotIn``."""
    on_missing: OnMissing = OnMissing()
    """What happens where one of them has no such label."""
    with_: OtherPods | None = msgspec.field(default=None, name="with")
    """Only domains that have one of these pods."""
    not_with: OtherPods | None = None
    """Only domains that have none of these pods."""
    near: OtherPods | None = None
    """Rather domains that have these pods: ``with`` as a wish."""
    by: Text | tuple[Text, ...] = "node"
    """The domain: ``node``, ``zone``, the key of any node label, or several labels together."""
    symmetric: bool | None = None
    """Whether it also holds when one of the others comes later; yes for ``notWith`` by default."""
    weight: Annotated[float, msgspec.Meta(gt=0, le=1_000_000)] | None = None
    """Makes the rule a wish that counts so much beside others; without it the rule is hard."""
    reason: Annotated[str, msgspec.Meta(max_length=200)] = ""
    """What people read in the pod's event, instead of our own words."""

    def __post_init__(self) -> None:
        kinds = [self.pod_label, self.with_, self.not_with, self.near]
        if sum(kind is not None for kind in kinds) != 1:
            raise ValueError("a rule has one of `podLabel`, `with`, `notWith`, `near`; make it several rules")
        self._check_labels() if self.pod_label is not None else self._check_pods()

    def _check_labels(self) -> None:
        if self.by != "node" or self.symmetric is not None:
            raise ValueError("`by` and `symmetric` are for rules between pods, not for `podLabel`")
        if self.node_label is not None and self.node_annotation is not None:
            raise ValueError("give `nodeLabel` or `nodeAnnotation`, not both")
        if self.operator in ("In", "NotIn") and self.node_annotation is None and self.separator == ",":
            raise ValueError(
                f"no label can hold a comma: for {self.operator}, set `separator` or use `nodeAnnotation`"
            )

    def _check_pods(self) -> None:
        about_nodes = (self.node_label, self.node_annotation, self.operator, self.separator, self.on_missing)
        if about_nodes != (None, None, "Equal", ",", OnMissing()):
            raise ValueError(
                "`nodeLabel`, `nodeAnnotation`, `operator`, `separator` and `onMissing` go with `podLabel`"
            )
        if self.with_ is not None and self.symmetric:
            raise ValueError("`with` cannot be symmetric: neither could ever come first; `near` can")


class AffinityArgs(Args):
    """Settings of `Affinity`."""

    rules: Annotated[tuple[AffinityRule, ...], msgspec.Meta(min_length=1)]
    """All of them are kept."""


@bayplan.policy
class Affinity:
    """Which nodes and which other pods a pod goes with."""

    def __init__(self, args: AffinityArgs) -> None:
        self._labels = [_LabelRule(rule) for rule in args.rules if rule.pod_label is not None]
        self._pods = [_PodRule(rule) for rule in args.rules if rule.pod_label is None]

    @bayplan.filter(reads="node")
    def labels(self, pod: Pod, nodes: NodeTable) -> Verdict | None:
        """The hard rules between the pod and the nodes."""
        hard = (rule for rule in self._labels if rule.weight is None)
        return _verdict((rule.reason, rule.kept(pod, nodes)) for rule in hard)

    @bayplan.filter(recheck=True)
    def pods(self, pod: Pod, nodes: NodeTable, cluster: bayplan.Snapshot) -> Verdict | None:
        """The hard rules between the pod and other pods."""
        hard = (rule for rule in self._pods if rule.weight is None)
        return _verdict((rule.reason, rule.kept(pod, nodes, cluster)) for rule in hard)

    @bayplan.score(range=(0, 100))
    def wishes(self, pod: Pod, nodes: NodeTable) -> Floats:
        """The soft rules that are for this pod; no opinion where there is none."""
        rules: list[_LabelRule | _PodRule] = [*self._labels, *self._pods]
        kept = [(rule.weight, rule.liked(pod, nodes)) for rule in rules if rule.weight is not None]
        said = [(weight, liked) for weight, liked in kept if liked is not None]
        if not said:
            return np.full(len(nodes), np.nan)
        mean: Floats = np.average(
            [liked for _, liked in said], axis=0, weights=[weight for weight, _ in said]
        )
        return 100.0 * mean


class _LabelRule:
    """A pod's label against a node's."""

    def __init__(self, rule: AffinityRule) -> None:
        self.weight = rule.weight
        self._rule = rule
        self._key = rule.pod_label or ""
        key = rule.node_annotation or rule.node_label or self._key
        column = NodeAnnotation if rule.node_annotation is not None else Label
        self._column = column(key, float if rule.operator in _ORDER else str)
        # A node that says nothing is not the one that a Not speaks of.
        self._without = rule.on_missing.node or ("pass" if rule.operator in _NEGATIVE else "refuse")
        text = rule.reason or f"node's {key} does not suit the pod's {self._key}"
        self.reason = Reason(text, helped_by=frozenset({"nodes"}))

    def kept(self, pod: Pod, nodes: NodeTable) -> Bools | None:
        """Which nodes keep the rule; ``None`` where it is silent about this pod."""
        if not self._rule.pods.matches(pod):
            return None
        column = nodes[self._column]
        present = column.present if isinstance(column, Strings) else ~np.isnan(column)
        mine = pod.labels.get(self._key)
        if mine is None:
            return None if self._rule.on_missing.pod == "pass" else ~present
        return np.where(present, self._suits(column, mine), self._without == "pass")

    def liked(self, pod: Pod, nodes: NodeTable) -> Floats | None:
        """1 where the rule is kept and 0 where it is not."""
        kept = self.kept(pod, nodes)
        return None if kept is None else kept.astype(np.float64)

    def _suits(self, column: Strings | Floats, mine: str) -> Bools:
        operator = self._rule.operator
        if not isinstance(column, Strings):
            suits: Bools = _ORDER[operator](_number(mine), column)
            return suits
        if operator in ("In", "NotIn"):
            found = column.isin(_listing(column.values, self._rule.separator).get(mine, ()))
        else:
            found = column == mine
        return ~found if operator in _NEGATIVE else found


class _PodRule:
    """A pod with, not with or near other pods."""

    def __init__(self, rule: AffinityRule) -> None:
        self._scope = rule.pods
        self._others = rule.with_ or rule.not_with or rule.near or OtherPods()
        self._apart = rule.not_with is not None
        self._symmetric = self._apart if rule.symmetric is None else rule.symmetric
        self._by = blocks.domain(rule.by)
        self.weight = 1.0 if rule.near is not None and rule.weight is None else rule.weight
        keys = (rule.by,) if isinstance(rule.by, str) else rule.by
        domain = "/".join(key.rpartition("/")[2] for key in keys)
        wrong = "has pods to keep apart from" if self._apart else "lacks pods to be with"
        text = rule.reason or f"the {domain} {wrong}"
        self.reason = Reason(text, preemptible=self._apart, helped_by=frozenset({"pods"}))

    def kept(self, pod: Pod, nodes: NodeTable, cluster: bayplan.Snapshot) -> Bools | None:
        """Which nodes keep the rule; ``None`` where it is not for this pod."""
        others = self._others_of(pod, nodes)
        if others is None:
            return None
        count = nodes.count(others, by=self._by)
        if self._apart:
            return count <= 0
        if self._others.includes(pod) and not (cluster.nodes.count(others, by=self._by) > 0).any():
            # The first of a group that keeps together has nobody to be with yet.
            return count >= 0
        return count > 0

    def liked(self, pod: Pod, nodes: NodeTable) -> Floats | None:
        """How many of the others there are, beside the domain with the most: 0 to 1."""
        others = self._others_of(pod, nodes)
        if others is None:
            return None
        count = np.maximum(nodes.count(others, by=self._by), 0)
        share: Floats = count / max(count.max(initial=0), 1)
        return 1.0 - share if self._apart else share

    def _others_of(self, pod: Pod, nodes: NodeTable) -> blocks.PodCondition | None:
        """The pods that matter to this one; ``None`` where the rule is not for it."""
        if not nodes.pods_known:
            # Fails for every pod, so that it fails when the policy is loaded.
            nodes.count()
        if not self._others.concerns(pod):
            return None
        sides = []
        if self._scope.matches(pod):
            sides.append(self._others.seen_from(pod))
        if self._symmetric and self._others.matches(pod):
            # Every relation between two pods holds both ways, so only who is who changes.
            sides.append(blocks.chosen_by(self._scope) & self._others.related_to(pod))
        return reduce(or_, sides) if sides else None


def _verdict(kept: Iterable[tuple[Reason, Bools | None]]) -> Verdict | None:
    said = [reason.where(~mask) for reason, mask in kept if mask is not None]
    return reduce(or_, said) if said else None


@lru_cache(maxsize=64)
def _listing(lists: tuple[str, ...], separator: str) -> dict[str, list[str]]:
    """The lists that have an item, by item."""
    found: dict[str, list[str]] = {}
    for text in lists:
        for item in {item.strip() for item in text.split(separator)}:
            found.setdefault(item, []).append(text)
    return found


def _number(text: str) -> float:
    """The number in a label; NaN, which no comparison suits, where there is none."""
    return float(text) if text.replace(".", "", 1).isdecimal() else np.nan
