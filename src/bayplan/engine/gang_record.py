"""Decisions about gang members for the journal: over all nodes, even if only one domain was judged."""

import msgspec
import numpy as np

from bayplan.authoring.hooks import HookSpec
from bayplan.authoring.registry import Hook
from bayplan.authoring.verdict import Reason
from bayplan.engine.decision import NOBODY, Decision, Outcome
from bayplan.engine.gang_domains import Domain
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot

NAME = "Gang"
# Reasons are constant, since a text is a metric's label; numbers and names go into details.
_ROOM = frozenset({"pods", "nodes"})
OUTSIDE = Reason(
    "node is not in the domain of the gang",
    detail="{domain}",
    helped_by=_ROOM,
    advice="the whole gang would have to fit into another domain",
)
UNLABELLED = Reason(
    "node lacks the label of the gang's domain",
    detail="{label}",
    helped_by=frozenset({"nodes"}),
    advice="a node would have to get the label, or the gang to name another one",
)
WAITS = Reason(
    "pod waits for its gang",
    detail="{said}",
    helped_by=_ROOM,
    of_pod=True,
    advice="all members would have to be there, and to fit at the same time",
)

_DOMAIN = Hook(NAME, "domain", HookSpec("filter", ("nodes",), "gang"), OUTSIDE.where)
_TOGETHER = Hook(NAME, "together", HookSpec("filter", ("nodes",), "gang"), WAITS.where)


def waits(pod: Pod, cluster: Snapshot, said: str) -> Decision:
    """The decision about a member that waits: it was not judged, or other members do not fit."""
    nodes = cluster.nodes
    verdict = WAITS.where(np.ones(len(nodes), dtype=np.bool_), said=said)
    refused_by = np.zeros(len(nodes), dtype=np.int16)
    return Decision(pod, nodes, (Outcome(_TOGETHER, 0.0, verdict),), refused_by)


def nowhere(pod: Pod, cluster: Snapshot, label: str) -> Decision:
    """The decision about a member whose gang has no domain: no node has the label."""
    nodes = cluster.nodes
    verdict = UNLABELLED.where(np.ones(len(nodes), dtype=np.bool_), label=label)
    return Decision(pod, nodes, (Outcome(_DOMAIN, 0.0, verdict),), np.zeros(len(nodes), dtype=np.int16))


def over_all(judged: Decision, cluster: Snapshot, domain: Domain) -> Decision:
    """Widen a decision over a domain to all nodes: nodes outside the domain are refused."""
    count, rows = len(cluster.nodes), domain.rows
    outside = np.ones(count, dtype=np.bool_)
    outside[rows] = False
    refused_by = np.zeros(count, dtype=np.int16)
    refused_by[rows] = np.where(judged.refused_by == NOBODY, NOBODY, judged.refused_by + 1)
    outcomes = [Outcome(_DOMAIN, 0.0, OUTSIDE.where(outside, domain=f"the gang is in {domain.name}"))]
    for outcome in judged.outcomes:
        verdict = outcome.verdict.spread(rows, count) if outcome.verdict is not None else None
        outcomes.append(msgspec.structs.replace(outcome, verdict=verdict))
    return msgspec.structs.replace(
        judged, nodes=cluster.nodes, outcomes=tuple(outcomes), refused_by=refused_by
    )
