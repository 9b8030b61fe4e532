"""NodeResourcesFit: a node has room for what the pod requests, and more room is better, or less.

Filter   rejects nodes with too little left of a resource that the pod requests, and full nodes; every
         resource that is short is told.
Score    by ``scoringStrategy``: the weighted mean of what is left (LeastAllocated), of what is taken
         (MostAllocated), or of a curve over what is taken (RequestedToCapacityRatio), in percent.
Reads    ``allocatable`` and ``requested`` of the resources. Where CPU and memory are scored, a container that
         asks for none counts as 100m and 200Mi.
"""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

import bayplan
from bayplan import Args, NodeTable, Pod, Reason, Verdict, blocks
from bayplan.policies.default_profile.scoring_strategy import (
    NATIVE,
    AllocationScore,
    ScoringStrategy,
    is_scalar,
)

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

# Stands among the resources that a node lacks where it would lack them empty, too.
_UNRESOLVABLE = ""
_COMPACT_FROM = 256


class NodeResourcesFitArgs(Args):
    """Settings of `NodeResourcesFit`."""

    ignored_resources: tuple[str, ...] = ()
    """Extended resources that the filter does not look at."""
    ignored_resource_groups: tuple[str, ...] = ()
    """The same for all with one of these prefixes: ``example.com`` for ``example.com/gpu``."""
    scoring_strategy: ScoringStrategy = ScoringStrategy()
    """How nodes are scored."""

    def __post_init__(self) -> None:
        for group in self.ignored_resource_groups:
            if "/" in group:
                raise ValueError(f"ignoredResourceGroups: {group!r} has a `/`; give what is before it")

    def ignores(self, resource: str) -> bool:
        """Whether the filter does not look at the resource."""
        group, slash, _ = resource.partition("/")
        extended = bool(slash) and "kubernetes.io/" not in resource
        return extended and (resource in self.ignored_resources or group in self.ignored_resource_groups)


@bayplan.policy
class NodeResourcesFit:
    """A node has room for what the pod requests."""

    def __init__(self, args: NodeResourcesFitArgs) -> None:
        self._ignores = args.ignores
        self._score = AllocationScore(args.scoring_strategy)

    @bayplan.filter(recheck=True, reads="pods")
    def fits(self, pod: Pod, nodes: NodeTable) -> Verdict | None:
        """Refuse nodes that lack something, for all that they lack."""
        lacking: dict[str, Bools] = {}
        numbers: dict[str, Ints | int] = {}
        too_small: Bools = np.zeros((), dtype=np.bool_)
        for resource, need in self._needs(pod):
            free = nodes[f"{resource}.free"]
            short = free < need
            if short.any():
                lacking[resource] = short
                numbers |= {f"need_{_word(resource)}": need, f"free_{_word(resource)}": free}
                if resource != "pods":
                    too_small = too_small | (nodes[f"{resource}.allocatable"] < need)
        if not lacking:
            return None
        if too_small.any():
            lacking[_UNRESOLVABLE] = too_small
        codes, combinations = _combined(lacking, len(nodes))
        reasons = tuple(_reason(combination) for combination in combinations[1:])
        return Verdict(codes, reasons, (numbers,) * len(reasons))

    @bayplan.score(range=(0, 100), reads="pods")
    def room(self, pod: Pod, nodes: NodeTable) -> Ints:
        """How much is left, or taken, of the resources that count."""
        # Requests of the pod as a whole are not looked at: kube-scheduler forgets them here, and only here.
        asked = blocks.pod_requests(
            pod.containers,
            pod.init_containers,
            overhead=pod.spec.overhead if pod.spec else None,
            missing=blocks.SMALL_CONTAINER,
        )
        return self._score.of(asked, nodes)

    def _needs(self, pod: Pod) -> Iterator[tuple[str, int]]:
        yield "pods", 1
        for resource, need in pod.requests.items():
            counts = resource in NATIVE or (is_scalar(resource) and not self._ignores(resource))
            if need > 0 and counts:
                yield resource, need


def _combined(lacking: dict[str, Bools], count: int) -> tuple[NDArray[np.int16], list[tuple[str, ...]]]:
    """One number a node for what it lacks together, and what each number stands for; 0 lacks nothing."""
    codes = np.zeros(count, dtype=np.int64)
    combinations: list[tuple[str, ...]] = [()]
    for resource, short in lacking.items():
        codes += short * np.int64(len(combinations))
        combinations += [(*combination, resource) for combination in combinations]
        # A pod may ask for dozens of things that nobody has: only what is there may be doubled.
        if len(combinations) > _COMPACT_FROM:
            codes, combinations = _compact(codes, combinations)
    codes, combinations = _compact(codes, combinations)
    return codes.astype(np.int16), combinations


def _compact(codes: Ints, combinations: list[tuple[str, ...]]) -> tuple[Ints, list[tuple[str, ...]]]:
    used = np.bincount(codes, minlength=len(combinations)) > 0
    used[0] = True
    numbers = np.cumsum(used) - 1
    return numbers.take(codes), [each for each, there in zip(combinations, used, strict=True) if there]


@lru_cache(maxsize=1024)
def _reason(lacking: tuple[str, ...]) -> Reason:
    resources = [resource for resource in lacking if resource != _UNRESOLVABLE]
    texts = ["Too many pods" if each == "pods" else f"Insufficient {each}" for each in resources]
    words = [(each, _word(each), blocks.unit_of(each)) for each in resources]
    return Reason(
        texts[0],
        also=tuple(texts[1:]),
        detail="; ".join(
            f"{each}: {{need_{word}:{unit}}} needed, {{free_{word}:{unit}}} left"
            for each, word, unit in words
        ),
        preemptible=_UNRESOLVABLE not in lacking,
        helped_by=frozenset({"nodes", "pods"}),
    )


def _word(resource: str) -> str:
    """A name that a format string can have."""
    return "".join(letter if letter.isalnum() else "_" for letter in resource)
