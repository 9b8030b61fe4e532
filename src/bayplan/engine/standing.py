"""The verdicts and scores of all hooks on every node, for pods of one kind: valid until a node changes.

If every hook promises that its result for a node depends on that node alone (``reads="node"``), the result
for some nodes is a part of the result for all of them. A pod of a known kind then needs no hook, only a
lookup for each node. The journal entry is the same as if the hooks had run.

This holds no reference to a snapshot or a policy: the journal keeps it after both were replaced.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from bayplan.authoring.registry import Policy
from bayplan.authoring.scope import EVERY_POD
from bayplan.authoring.verdict import Reason
from bayplan.engine.combine import Floats, combine
from bayplan.engine.cycle import Question, filter_nodes, interested, score_nodes
from bayplan.engine.decision import Outcome, Rows
from bayplan.engine.guard import Attempt
from bayplan.engine.hook_results import HookResults
from bayplan.engine.node_hooks import NodeHooks, of_single_nodes
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot

PASSES = 0
MOST_REFUSALS = 255
"""A verdict is one byte."""


class Standing(Struct, frozen=True, eq=False, dict=True):
    """The results of all hooks for every node of the cluster, for pods of one kind."""

    filters: tuple[HookResults, ...]
    scores: tuple[HookResults, ...]
    totals: Floats | None
    """Combined score of each node; ``None`` without scores, or if they depend on the nodes asked about."""
    refused_by: NDArray[np.int16]
    """For each node, the index of the filter that refuses it, or -1."""
    verdicts: NDArray[np.uint8]
    """For each node: 0 passes, ``k`` is refused for ``refusals[k - 1]``."""
    refusals: tuple[tuple[str, Reason], ...]
    """Each reason that occurs, with its policy."""

    def total(self, rows: Rows) -> Floats | None:
        """The combined scores of these nodes; ``None`` if no policy scores."""
        if self.totals is not None:
            return self.totals[rows]
        heard = [(points, said.weight) for said in self.scores if (points := said.points(rows)) is not None]
        if not heard:
            return None
        return combine([points for points, _ in heard], [weight for _, weight in heard], len(rows))

    @cached_property
    def nbytes(self) -> int:
        """Roughly its size in memory."""
        totals = 0 if self.totals is None else self.totals.nbytes
        said = sum(said.nbytes for said in (*self.filters, *self.scores))
        return self.verdicts.nbytes + self.refused_by.nbytes + totals + said


def may_stand(policies: Sequence[Policy]) -> bool:
    """Whether any pod can have a `Standing`: not if a policy for every pod looks beyond single nodes."""
    around = any(policy.scope is EVERY_POD and looks_around(policy) for policy in policies)
    return bool(policies) and not around


def learn(policies: Sequence[Policy], pod: Pod, cluster: Snapshot, attempt: Attempt) -> Standing | None:
    """Run all hooks on every node; ``None`` if the result would not hold for a part of the nodes."""
    mine = interested(policies, pod, shadows=True)
    if not interested(policies, pod) or any(map(looks_around, mine)):
        return None
    question = Question(pod, cluster.nodes, cluster, attempt.now)
    filtered, scored = filter_nodes(mine, question, attempt), score_nodes(mine, question, attempt)
    groups = filtered.groups()
    if filtered.failures or scored.failures or len(groups) > MOST_REFUSALS:
        return None
    verdicts = np.zeros(len(cluster.nodes), dtype=np.uint8)
    for code, (_, _, rows) in enumerate(groups, start=1):
        verdicts[rows] = code
    absolute = not any(map(_is_relative, scored.outcomes))
    return Standing(
        tuple(map(HookResults.of, filtered.outcomes)),
        tuple(map(HookResults.of, scored.outcomes)),
        scored.total if absolute else None,
        filtered.refused_by,
        verdicts,
        tuple((outcome.hook.policy, reason) for outcome, reason, _ in groups),
    )


def learn_hooks(
    policies: Sequence[Policy], pod: Pod, cluster: Snapshot, attempt: Attempt
) -> NodeHooks | None:
    """Run the hooks that look at single nodes on every node; ``None`` if there is none, or each fails."""
    mine = of_single_nodes(interested(policies, pod))
    question = Question(pod, cluster.nodes, cluster, attempt.now)
    decisions = [judge(mine, question, attempt) for judge in (filter_nodes, score_nodes) if mine]
    every = [outcome for decision in decisions for outcome in decision.outcomes if not outcome.failure]
    found = {id(o.hook): HookResults.of(o) for o in every if not _has_many_reasons(o)}
    return NodeHooks(found) if found else None


def _has_many_reasons(outcome: Outcome) -> bool:
    """Whether a filter has a text of its own for each node; to keep them would cost more than to call it."""
    return outcome.verdict is not None and len(outcome.verdict.reasons) > MOST_REFUSALS


def _is_relative(outcome: Outcome) -> bool:
    """Whether a score depends on the nodes asked about: it is stretched, or has gaps."""
    gaps = outcome.normalised is None or bool(np.isnan(outcome.normalised).any())
    return gaps or outcome.hook.spec.range is None


def looks_around(policy: Policy) -> bool:
    """Whether the policy may judge a node by more than that node, or is a shadow policy."""
    hooks = (*policy.of_kind("filter"), *policy.of_kind("score"))
    # `prefer` depends on which nodes are left, and `prepare` sees the whole cluster.
    if policy.of_kind("prefer") or (hooks and policy.of_kind("prepare")):
        return True
    return any(hook.spec.reads != "node" or policy.shadow for hook in hooks)
