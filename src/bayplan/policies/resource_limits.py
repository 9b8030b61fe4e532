"""ResourceLimits: caps on nodes that a pod's requests cannot express.

Filter   refuses nodes where a class of pods would pass its share or its number, where too little would stay
         free, or where too much is used in fact; run again at bind.
Reads    the placed pods; ``allocatable`` of the resources, times a factor; a source, for usage.
"""

from collections.abc import Iterator
from functools import cache, partial, reduce
from operator import or_
from typing import Annotated, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

import bayplan
from bayplan import Args, Label, NodeTable, Pod, Reason, Source, Verdict
from bayplan.blocks import PodGroup, ResourceWeight, unit_of
from bayplan.policies.shares import (
    ENDLESS,
    HIGHEST_FACTOR,
    WHOLE,
    Ints,
    Number,
    part_of,
    read_factor,
    read_headroom,
    read_share,
)

Text = Annotated[str, msgspec.Meta(min_length=1)]

_OVER = (
    "these pods have their share of the node's {resource}",
    "{used} of {most} requested, {need} needed",
)
_TIGHT = ("too little {resource} would be left", "{free} free, {need} needed, {kept} must stay")
_CHANGES = frozenset({"pods", "nodes"})


class FactorLabel(Args):
    """A factor that each node has on itself."""

    label: Text
    """The node's label, such as ``"1.5"``."""
    default: Number = 1
    """The factor of nodes without the label."""


class Usage(Args):
    """A cap on what is used in fact."""

    source: Text
    """The source, or one column of it, that says how much of the node is used."""
    max: Number
    """The part of the node's allocatable that may be used: ``0.8`` or ``80%``."""
    resource: Literal["cpu", "memory"] = "cpu"
    """What the source measures; requests of pods that came since are added to it."""
    unit: Literal["fraction", "percent"] = "fraction"
    """What the source's numbers are: 0 to 1, or 0 to 100."""
    on_missing: Literal["pass", "fail"] = "pass"
    """Whether nodes pass that the source says nothing about."""

    def __post_init__(self) -> None:
        read_share(self.max, "max")


class Limit(Args):
    """What one class of pods may have on a node."""

    pods: PodGroup = PodGroup()
    """The pods that are held to it, and are counted together; all where it is left out."""
    share: dict[str, Number] = msgspec.field(default_factory=dict)
    """What part of a node's allocatable they may request together, by resource: ``0.5`` or ``50%``."""
    max_pods: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """How many of them a node may have."""
    headroom: dict[str, Number] = msgspec.field(default_factory=dict)
    """What must stay free on the node, whoever has the rest, by resource: ``500m``, ``2Gi`` or ``10%``."""
    overcommit: dict[str, FactorLabel | Number] = msgspec.field(default_factory=dict)
    """What allocatable is multiplied with, by resource; all pods together keep to the product."""
    usage: Usage | None = None
    """A cap on what is used in fact."""
    reason: Annotated[str, msgspec.Meta(max_length=200)] = ""
    """What people read in the pod's event, instead of our own words."""

    def __post_init__(self) -> None:
        if not (self.share or self.headroom or self.overcommit or self.usage) and self.max_pods is None:
            raise ValueError("give at least one of `share`, `maxPods`, `headroom`, `overcommit`, `usage`")
        for resource in (*self.share, *self.headroom, *self.overcommit):
            if resource == "pods":
                raise ValueError("pods are counted by `maxPods`")
            ResourceWeight(name=resource)
        for resource, value in self.share.items():
            read_share(value, f"share.{resource}")
        for resource, value in self.headroom.items():
            read_headroom(resource, value)
        for resource, factor in self.overcommit.items():
            read_factor(
                factor.default if isinstance(factor, FactorLabel) else factor, f"overcommit.{resource}"
            )


class ResourceLimitsArgs(Args):
    """Settings of `ResourceLimits`."""

    limits: Annotated[tuple[Limit, ...], msgspec.Meta(min_length=1)]
    """All of them are kept."""


@bayplan.policy
class ResourceLimits:
    """Caps on nodes that a pod's requests cannot express."""

    def __init__(self, args: ResourceLimitsArgs) -> None:
        self._limits = [_Limit(limit) for limit in args.limits]
        # Named here, so that a source that nobody collects is an error when the policy is loaded.
        self._columns = [column for limit in self._limits for column in limit.columns]

    @bayplan.filter(recheck=True, reads="pods")
    def within(self, pod: Pod, nodes: NodeTable) -> Verdict | None:
        """Every limit that is for this pod."""
        # Where pods are not known it fails for every pod, so that it fails when it is loaded.
        mine = [limit for limit in self._limits if limit.pods.includes(pod) or not nodes.pods_known]
        said = [verdict for limit in mine for verdict in limit.verdicts(pod, nodes)]
        return reduce(or_, said) if said else None


class _Limit:
    """One limit, with its numbers read and its reasons worded."""

    def __init__(self, limit: Limit) -> None:
        self.pods = limit.pods
        self._text = limit.reason
        self._most = limit.max_pods
        self._share = {name: read_share(value, name) for name, value in limit.share.items()}
        self._headroom = {name: read_headroom(name, value) for name, value in limit.headroom.items()}
        self._factors = {name: _label_or_factor(said) for name, said in limit.overcommit.items()}
        self._usage = None if limit.usage is None else _Usage(limit.usage, limit.reason)
        self._full = self._reason(f"the node has {self._most} of these pods already", "{count} there")
        self._over = {name: self._about(name, _OVER) for name in self._share}
        self._tight = {name: self._about(name, _TIGHT) for name in self._factors | self._headroom}
        self._labels = [label for label, _ in self._factors.values() if label is not None]
        self._unreadable = [_no_factor(label) for label in self._labels]
        self.columns = [*self._labels, *([self._usage.column] if self._usage else [])]

    def verdicts(self, pod: Pod, nodes: NodeTable) -> Iterator[Verdict]:
        """What each part of the limit says of the nodes."""
        # A label that cannot be read comes first: the numbers behind the others would be wrong.
        for label, reason in zip(self._labels, self._unreadable, strict=True):
            yield reason.where(nodes[Label(label.key)].present & ~_is_factor(nodes[label]))
        usable = cache(partial(self._allocatable, nodes))
        counted = self.pods.seen_from(pod)
        if self._most is not None:
            count = nodes.count(counted)
            yield self._full.where(count >= self._most, count=count)
        for resource in self._share:
            used = nodes.sum(resource, counted)
            yield self._within_share(pod, resource, used, usable(resource))
        # The room that is kept free is kept for daemons, who have no other node to go to.
        if pod.owner is None or pod.owner.kind != "DaemonSet":
            for resource in self._tight:
                yield self._stays_free(pod, nodes, resource, usable(resource))
        if self._usage is not None:
            yield self._usage.verdict(pod, nodes)

    def _within_share(self, pod: Pod, resource: str, used: Ints, all_of_it: Ints) -> Verdict:
        most = part_of(all_of_it, self._share[resource])
        need = pod.request(resource)
        # Not used + need: a pod may ask for the largest int64.
        return self._over[resource].where((used > most - need) & (need > 0), used=used, most=most, need=need)

    def _stays_free(self, pod: Pod, nodes: NodeTable, resource: str, all_of_it: Ints) -> Verdict:
        amount, part = self._headroom.get(resource, (0, 0))
        kept = all_of_it - part_of(all_of_it, WHOLE - part) if part else amount
        free = all_of_it - nodes[f"{resource}.requested"]
        need = pod.request(resource)
        return self._tight[resource].where((free - kept < need) & (need > 0), free=free, need=need, kept=kept)

    def _allocatable(self, nodes: NodeTable, resource: str) -> Ints:
        """What pods may use of the node, times its factor."""
        allocatable: Ints = np.minimum(nodes[f"{resource}.allocatable"], ENDLESS)
        if resource not in self._factors:
            return allocatable
        label, factor = self._factors[resource]
        if label is None:
            return part_of(allocatable, factor)
        said = nodes[label]
        factors = np.where(_is_factor(said), said, factor / WHOLE)
        return part_of(allocatable, np.rint(factors * WHOLE).astype(np.int64))

    def _about(self, resource: str, words: tuple[str, str]) -> Reason:
        text, detail = words
        return self._reason(text.format(resource=resource), detail.replace("}", f":{unit_of(resource)}}}"))

    def _reason(self, text: str, detail: str) -> Reason:
        return Reason(self._text or text, detail=detail, preemptible=True, helped_by=_CHANGES)


class _Usage:
    """A cap on what is used in fact."""

    def __init__(self, usage: Usage, text: str) -> None:
        self.column = Source(usage.source)
        self._resource = usage.resource
        self._scale = 100.0 if usage.unit == "percent" else 1.0
        self._most = read_share(usage.max, "max") / WHOLE
        self._unknown_fails = usage.on_missing == "fail"
        topic = f"source:{self.column.source}"
        self._hot = Reason(
            text or f"too much {usage.resource} is used on the node",
            detail="{used:.0%} with the pod, at most {most:.0%}",
            preemptible=True,
            helped_by=_CHANGES | {topic},
        )
        self._unknown = Reason(f"{usage.source} says nothing of the node", helped_by=frozenset({topic}))

    def verdict(self, pod: Pod, nodes: NodeTable) -> Verdict:
        """Where measured usage, pods that came since and this pod are too much together."""
        allocatable = np.maximum(nodes[f"{self._resource}.allocatable"], 1)
        # A pod that went may have been idle: what it asked for is not taken off.
        came = nodes.growth(self._resource, since=self.column).clip(min=0)
        later = came + float(pod.request(self._resource))
        used = nodes[self.column] / self._scale + later / allocatable
        verdict = self._hot.where(used > self._most, used=used, most=self._most)
        return verdict | self._unknown.where(np.isnan(used) & self._unknown_fails)


def _is_factor(said: NDArray[np.float64]) -> NDArray[np.bool_]:
    return (said >= 0.0) & (said <= HIGHEST_FACTOR)


def _no_factor(label: Label) -> Reason:
    return Reason(f"node's label {label.key} is no factor", helped_by=frozenset({"nodes"}))


def _label_or_factor(said: FactorLabel | Number) -> tuple[Label | None, int]:
    """The label, if there is one, and the factor where it does not say another."""
    if isinstance(said, FactorLabel):
        return Label(said.label, float), read_factor(said.default, said.label)
    return None, read_factor(said, "overcommit")
