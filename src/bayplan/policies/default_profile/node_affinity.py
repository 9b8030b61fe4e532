"""NodeAffinity: a pod goes to the nodes that its node selector and its node affinity choose.

Filter   rejects nodes that ``nodeSelector`` or the required terms do not match. Where every term names its
         nodes, all others are rejected before any other rule is asked.
Score    the weights of the preferred terms that match, of the best node's sum, in percent.
Reads    labels and names of the nodes.
"""

from typing import Annotated, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

import bayplan
from bayplan import Args, NodeTable, Pod, Reason, Snapshot, Verdict
from bayplan.blocks import (
    Expression,
    NodeSelector,
    NodeSelectorTerm,
    PreferredTerm,
    matching,
    selected,
    with_labels,
)

_NODES = frozenset({"nodes"})
NOT_MATCHED = Reason("node(s) didn't match Pod's node affinity/selector", helped_by=_NODES)
NOT_ENFORCED = Reason("node(s) didn't match scheduler-enforced node affinity", helped_by=_NODES)
NOT_NAMED = Reason("node(s) didn't satisfy plugin(s) [NodeAffinity]", helped_by=_NODES)
CONFLICT = Reason("pod affinity terms conflict", of_pod=True, helped_by=frozenset({"pod"}))

_NAME = "metadata.name"
_DURING = "DuringSchedulingIgnoredDuringExecution"
_BEST = 100


class AddedExpression(Args):
    """One line of ``matchExpressions`` or ``matchFields``."""

    key: Annotated[str, msgspec.Meta(min_length=1)]
    """Key of the label; ``metadata.name`` among fields."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """How the node's value stands to the values."""
    values: tuple[str, ...] = ()
    """One for ``Gt`` and ``Lt``, none for ``Exists`` and ``DoesNotExist``."""

    def __post_init__(self) -> None:
        least, most = {"Exists": (0, 0), "DoesNotExist": (0, 0), "Gt": (1, 1), "Lt": (1, 1)}.get(
            self.operator, (1, len(self.values))
        )
        if not least <= len(self.values) <= most:
            wanted = "at least one" if self.operator in ("In", "NotIn") else "one" if least else "none"
            raise ValueError(f"{self.operator} wants {wanted} of `values`, not {len(self.values)}")

    def plain(self) -> Expression:
        """As pods have it."""
        return Expression(key=self.key, operator=self.operator, values=self.values)


class AddedTerm(Args):
    """Expressions over a node's labels and fields, of which all must hold."""

    match_expressions: tuple[AddedExpression, ...] = ()
    """About labels."""
    match_fields: tuple[AddedExpression, ...] = ()
    """About ``metadata.name``, with ``In`` or ``NotIn`` and one value."""

    def __post_init__(self) -> None:
        for field in self.match_fields:
            if field.key != _NAME or field.operator not in ("In", "NotIn") or len(field.values) != 1:
                raise ValueError(f"matchFields knows `{_NAME}` alone, with In or NotIn and one value")

    def plain(self) -> NodeSelectorTerm:
        """As pods have it."""
        return NodeSelectorTerm(
            match_expressions=tuple(each.plain() for each in self.match_expressions),
            match_fields=tuple(each.plain() for each in self.match_fields),
        )


class AddedSelector(Args):
    """Terms of which one must match."""

    node_selector_terms: Annotated[tuple[AddedTerm, ...], msgspec.Meta(min_length=1)]
    """The terms."""


class AddedPreference(Args):
    """A wish for nodes."""

    weight: Annotated[int, msgspec.Meta(ge=0, le=100)]
    """How much it counts."""
    preference: AddedTerm
    """Which nodes."""


class AddedAffinity(Args, rename=lambda name: name + _DURING):
    """Node affinity that every pod has beside its own."""

    required: AddedSelector | None = None
    """Nodes that do not match get no pod."""
    preferred: tuple[AddedPreference, ...] = ()
    """Nodes that match are better."""


class NodeAffinityArgs(Args):
    """Settings of `NodeAffinity`."""

    added_affinity: AddedAffinity | None = None
    """Node affinity that every pod has beside its own; both must match."""


@bayplan.policy
class NodeAffinity:
    """A pod goes to the nodes that its node selector and its node affinity choose."""

    def __init__(self, args: NodeAffinityArgs) -> None:
        added = args.added_affinity or AddedAffinity()
        terms = added.required.node_selector_terms if added.required else ()
        self._enforced = NodeSelector(node_selector_terms=tuple(term.plain() for term in terms))
        self._wishes = tuple(
            PreferredTerm(weight=each.weight, preference=each.preference.plain()) for each in added.preferred
        )

    @bayplan.filter(first=True, reads="node")
    def named(self, pod: Pod, nodes: NodeTable, cluster: Snapshot) -> Verdict | Reason | None:
        """Refuse all but the nodes that the pod's terms name, where each of them names some."""
        names = _names(_required(pod))
        if names is None:
            return None
        if not names:
            return CONFLICT
        others = np.ones(len(nodes), dtype=np.bool_)
        others[_rows(names, nodes, cluster)] = False
        return NOT_NAMED.where(others)

    @bayplan.filter(reads="node")
    def matched(self, pod: Pod, nodes: NodeTable, cluster: Snapshot) -> Verdict | None:
        """Refuse nodes that the pod's selector, its terms or the added ones do not match."""
        required = _required(pod)
        names = _names(required)
        if names is None:
            return self._judge(pod, nodes, required)
        # A DaemonSet's pod: of 5,000 nodes one is left, and the others have their reason already.
        rows = _rows(names, nodes, cluster)
        verdict = self._judge(pod, nodes.take(rows), required)
        return None if verdict is None else verdict.spread(rows, len(nodes))

    @bayplan.score(range=(0, 100), reads="nodes")
    def preferred(self, pod: Pod, nodes: NodeTable) -> NDArray[np.int64] | float:
        """The weights of the terms that match, added up, of the highest such sum."""
        affinity = pod.affinity.node_affinity
        wishes = (*self._wishes, *((affinity.preferred if affinity else None) or ()))
        if not wishes:
            return np.nan
        total = np.zeros(len(nodes), dtype=np.int64)
        for wish in wishes:
            total += wish.weight * matching(nodes, wish.preference)
        most = int(total.max(initial=0))
        return _BEST * total // most if most else total

    def _judge(self, pod: Pod, nodes: NodeTable, required: NodeSelector | None) -> Verdict | None:
        wanted = pod.node_selector
        chosen = with_labels(nodes, wanted) if wanted else None
        if required is not None:
            chosen = selected(nodes, required) if chosen is None else chosen & selected(nodes, required)
        verdict = None if chosen is None or chosen.all() else NOT_MATCHED.where(~chosen)
        if not self._enforced.node_selector_terms:
            return verdict
        enforced = NOT_ENFORCED.where(~selected(nodes, self._enforced))
        return enforced if verdict is None else enforced | verdict


def _required(pod: Pod) -> NodeSelector | None:
    affinity = pod.affinity.node_affinity
    return affinity.required if affinity else None


def _names(required: NodeSelector | None) -> frozenset[str] | None:
    """The nodes that the terms name; ``None`` where one of them names none, and so any may do."""
    names: frozenset[str] = frozenset()
    for term in (required.node_selector_terms if required else None) or ():
        named = [
            frozenset(field.values or ())
            for field in term.match_fields or ()
            if field.key == _NAME and field.operator == "In"
        ]
        if not named:
            return None
        names |= frozenset.intersection(*named)
    return names if required and required.node_selector_terms else None


def _rows(names: frozenset[str], nodes: NodeTable, cluster: Snapshot) -> NDArray[np.intp]:
    """Where these nodes are, as far as they are among those asked about."""
    found = cluster.find(sorted(names))
    found = found[found >= 0]
    if nodes is cluster.nodes:
        return found
    _, rows = nodes.origin
    return np.flatnonzero(np.isin(rows, found))
