"""Ranks the domains (racks, zones) that a gang is tried in, and skips those that are too small.

A domain's score is the mean score of its nodes for the gang's first member. Among equals the domain that the
gang fills most comes first, which leaves larger free domains to others. A domain is skipped if its nodes have
less free in sum than all members request, or if they cannot hold the gang even if all members were as small
as the smallest. Both are sums per resource, cheap for any number of nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.authoring.registry import Policy
from bayplan.engine.choose import Choice
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot, total_requests
from bayplan.snapshot.columns import Label, split_resource
from bayplan.snapshot.strings import Strings

_RULE_OF_SUMS = "NodeResourcesFit"


@dataclass(frozen=True)
class Domain:
    """The nodes with one value of a label."""

    name: str
    rows: NDArray[np.intp]
    fill: float
    """What share of its free resources the gang requests, the largest over all resources; above 1: no fit."""
    holds: int
    """How many members its nodes could hold if all were as small as the smallest; at most all members."""
    score: float
    """Mean score of its nodes for the first member; NaN if that member passes on none of them."""


def read_domains(cluster: Snapshot, label: Label, pods: Sequence[Pod], first: Choice) -> list[Domain]:
    """Every domain of the cluster, best first; ``first`` is the choice for the first member."""
    texts: Strings = cluster.nodes[label]
    names = texts.values
    fills, holds = _fills(cluster, texts, pods), _holds(cluster, texts, pods)
    scores = _scores(texts, first)
    found = [
        Domain(
            names[code],
            np.flatnonzero(texts.codes == code),
            fill=float(fills[code]),
            holds=min(int(holds[code]), len(pods)),
            score=float(scores[code]),
        )
        for code in np.unique(texts.codes[texts.present]).tolist()
    ]
    return sorted(found, key=_rank)


def worth_trying(domains: Sequence[Domain], policies: Sequence[Policy], count: int) -> list[Domain]:
    """The domains that may hold ``count`` members; if none may, the roomiest one, to get its reasons."""
    sums_count = any(policy.name == _RULE_OF_SUMS and not policy.shadow for policy in policies)
    hopeful = [
        domain
        for domain in domains
        if not np.isnan(domain.score) and (not sums_count or (domain.fill <= 1.0 and domain.holds >= count))
    ]
    return hopeful or sorted(domains, key=lambda d: (np.isnan(d.score), -d.holds, d.fill))[:1]


def _rank(domain: Domain) -> tuple[float, float, float, str]:
    """Sort key, best first; domains in which the first member passes nowhere come last."""
    hopeless = bool(np.isnan(domain.score))
    return float(hopeless), 0.0 if hopeless else -domain.score, -domain.fill, domain.name


def _fills(cluster: Snapshot, texts: Strings, pods: Sequence[Pod]) -> NDArray[np.float64]:
    fills = np.zeros(len(texts.values))
    inside = texts.present
    for resource, needed in total_requests(pods).items():
        if not needed or split_resource(f"{resource}.free") is None:
            continue
        free = np.zeros(len(texts.values), dtype=np.int64)
        np.add.at(free, texts.codes[inside], np.maximum(cluster.nodes[f"{resource}.free"][inside], 0))
        fills = np.maximum(fills, np.where(free > 0, needed / np.maximum(free, 1), np.inf))
    return fills


def _holds(cluster: Snapshot, texts: Strings, pods: Sequence[Pod]) -> NDArray[np.int64]:
    room = np.full(len(cluster.nodes), len(pods), dtype=np.int64)
    for resource in total_requests(pods):
        least = 1 if resource == "pods" else min(pod.request(resource) for pod in pods)
        if least and split_resource(f"{resource}.free") is not None:
            room = np.minimum(room, np.maximum(cluster.nodes[f"{resource}.free"], 0) // least)
    holds = np.zeros(len(texts.values), dtype=np.int64)
    np.add.at(holds, texts.codes[texts.present], room[texts.present])
    return holds


def _scores(texts: Strings, first: Choice) -> NDArray[np.float64]:
    """Each domain's mean score over the nodes that passed; without scores every node counts as 0."""
    passed = np.flatnonzero(first.filtered.passed) if not first.filtered.error else np.zeros(0, dtype=np.intp)
    total = first.scored.total if first.scored is not None else None
    values = np.zeros(passed.size) if total is None else total
    codes = texts.codes[passed]
    inside = codes >= 0
    sums = np.bincount(codes[inside], weights=values[inside], minlength=len(texts.values))
    counts = np.bincount(codes[inside], minlength=len(texts.values))
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
