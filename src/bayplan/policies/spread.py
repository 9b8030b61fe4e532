"""Spread: at most so many pods of a group in a domain, or as evenly as asked.

Filter   refuses domains that have ``maxPerDomain``, or that are ``maxSkew`` ahead; run again at bind.
Prefer   domains that do not have ``preferAtMost`` yet, while there are any.
Score    fewer pods of the group in the domain is better, with ``whenUnsatisfiable: ScheduleAnyway``.
Reads    the placed pods of the group, and the labels that make the domains.
"""

from typing import Annotated, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

import bayplan
from bayplan import Args, Label, NodeTable, Pod, Reason, Snapshot, Verdict, blocks
from bayplan.blocks import PodGroup

Count = Annotated[int, msgspec.Meta(ge=1)]
Text = Annotated[str, msgspec.Meta(min_length=1)]


class SpreadArgs(Args):
    """Settings of `Spread`."""

    pods: PodGroup
    """The pods that are spread; the rule is for them and counts them."""
    by: Text | tuple[Text, ...] = "node"
    """The domain: ``node``, ``zone``, the key of any node label, or several labels together."""
    max_per_domain: Count | None = None
    """No domain gets more pods of the group than this."""
    prefer_at_most: Count | None = None
    """Domains that have so many pods of the group are left alone while others will do."""
    max_skew: Count | None = None
    """No domain gets so many more than the one with the fewest."""
    min_domains: Count = 1
    """With fewer domains than this, the one with the fewest counts as empty."""
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"] = "DoNotSchedule"
    """Whether ``maxSkew`` is a rule or a wish."""

    def __post_init__(self) -> None:
        if self.max_per_domain is None and self.max_skew is None and self.prefer_at_most is None:
            raise ValueError("give `maxPerDomain`, `preferAtMost`, `maxSkew` or several of them")
        soft = self.when_unsatisfiable == "ScheduleAnyway"
        if self.max_skew is None and soft:
            raise ValueError(
                "`whenUnsatisfiable` says how `maxSkew` is meant; `maxPerDomain` is always a rule, and"
                " `preferAtMost` is a wish"
            )
        if self.max_skew is None and self.min_domains > 1:
            raise ValueError("`minDomains` says how `maxSkew` is meant; add it")
        if soft and self.min_domains > 1:
            raise ValueError("`minDomains` is for `whenUnsatisfiable: DoNotSchedule`")


@bayplan.policy
class Spread:
    """At most so many pods of a group in a domain, or as evenly as asked."""

    def __init__(self, args: SpreadArgs) -> None:
        self._group = args.pods
        self._by = blocks.domain(args.by)
        self._most = args.max_per_domain
        self._wished = args.prefer_at_most
        self._max_skew = args.max_skew
        self._min_domains = args.min_domains
        self._soft = args.when_unsatisfiable == "ScheduleAnyway"
        keys = (args.by,) if isinstance(args.by, str) else args.by
        domain = "/".join(key.rpartition("/")[2] for key in keys)
        changes = frozenset({"pods", "nodes"})
        self._full = Reason(
            f"the {domain} has {self._most} of these pods already",
            detail="{count} there",
            preemptible=True,
            helped_by=changes,
        )
        self._crowded = Reason(
            f"the {domain} has {self._wished} of these pods already, and others have fewer",
            detail="{count} there",
            helped_by=changes,
        )
        self._uneven = Reason(
            f"the {domain} is ahead of others with these pods",
            detail="{count} there, {lowest} in the emptiest",
            preemptible=True,
            helped_by=changes,
        )
        self._outside = Reason(f"node lacks label {' or '.join(keys)}", helped_by=frozenset({"nodes"}))

    @bayplan.filter(recheck=True)
    def room(self, pod: Pod, nodes: NodeTable, cluster: Snapshot) -> Verdict | None:
        """Every domain keeps to its limit."""
        if self._most is None and (self._soft or self._max_skew is None):
            return None
        count = self._count(pod, nodes)
        if count is None:
            return None
        verdict = self._outside.where(count < 0)
        if self._most is not None:
            verdict |= self._full.where(count >= self._most, count=count)
        if self._max_skew is not None and not self._soft:
            lowest = self._lowest(pod, cluster)
            verdict |= self._uneven.where(count + 1 - lowest > self._max_skew, count=count, lowest=lowest)
        return verdict

    @bayplan.prefer
    def uncrowded(self, pod: Pod, nodes: NodeTable) -> Verdict | None:
        """Domains that have fewer than were wished for."""
        if self._wished is None or (count := self._count(pod, nodes)) is None:
            return None
        return self._crowded.where(count >= self._wished, count=count)

    @bayplan.score(range=(0, 100))
    def fewest(self, pod: Pod, nodes: NodeTable) -> NDArray[np.float64]:
        """Domains with fewer pods of the group are better; a node in no domain is worst."""
        count = self._count(pod, nodes) if self._soft else None
        if count is None or self._max_skew is None or not len(nodes):
            return np.full(len(nodes), np.nan)
        inside = count >= 0
        best = count.min(initial=np.iinfo(np.int64).max, where=inside)
        # As in kube-scheduler: the more skew is tolerated, the less a pod more or less matters.
        scale = max(count.max() + self._max_skew - 1, 1)
        return np.where(inside, 100.0 * (1.0 - (count - best) / scale), 0.0)

    def _count(self, pod: Pod, nodes: NodeTable) -> NDArray[np.int64] | None:
        """Pods of the group in each node's domain; ``None`` for a pod outside of the group."""
        if self._group.includes(pod) or not nodes.pods_known:
            # Where pods are not known it fails for every pod, so that it fails when it is loaded.
            return nodes.count(self._group.seen_from(pod), by=self._by)
        return None

    def _lowest(self, pod: Pod, cluster: Snapshot) -> int:
        """Pods of the group in the emptiest domain that the pod could be sent to."""
        nodes = cluster.nodes
        count = nodes.count(self._group.seen_from(pod), by=self._by)
        eligible = count >= 0
        for key, value in pod.node_selector.items():
            eligible &= nodes[Label(key)] == value
        domains = np.count_nonzero(eligible)
        if self._by is not None and self._min_domains > 1:
            domains = np.count_nonzero(np.bincount(nodes[self._by].codes[eligible]))
        if not domains or domains < self._min_domains:
            return 0
        return int(count[eligible].min())
