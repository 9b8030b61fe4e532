"""The verdicts and scores of all hooks on every node, for pods of one kind: valid until a node changes.

If every hook promises that its result for a node depends on that node alone (``reads="node"``), the result
for some nodes is a part of the result for all of them. A pod of a known kind then needs no hook, only a
lookup for each node. The journal entry is the same as if the hooks had run.

This holds no reference to a snapshot or a policy: the journal keeps it after both were replaced.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from bayplan.authoring.registry import Policy
from bayplan.authoring.scope import EVERY_POD
from bayplan.authoring.verdict import Reason, Score, Verdict
from bayplan.engine.combine import combine, normalise
from bayplan.engine.cycle import Question, filter_nodes, interested, score_nodes
from bayplan.engine.decision import Outcome, Rows
from bayplan.engine.entry import Voice, value_bytes
from bayplan.engine.guard import Attempt
from bayplan.engine.journal import chosen, refused_rows
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot

Floats = NDArray[np.float64]
PASSES = 0
MOST_REFUSALS = 255
"""A verdict is one byte."""


class HookResults(Struct, frozen=True, eq=False):
    """The result of one hook for every node of the cluster."""

    policy: str
    hook: str
    title: str
    kind: str
    seconds: float
    verdict: Verdict | None
    scores: Floats | None
    weight: float
    range: tuple[float, float] | None
    best: Literal["high", "low"]
    score: Score | None
    """Of a score: what the hook returned, if it has a detail."""

    @classmethod
    def of(cls, outcome: Outcome) -> "HookResults":
        """The result from the hook's outcome over all nodes."""
        hook, spec = outcome.hook, outcome.hook.spec
        return cls(
            hook.policy,
            hook.name,
            hook.title,
            spec.kind,
            outcome.seconds,
            outcome.verdict,
            None if outcome.score is None else outcome.score.scores,
            outcome.weight,
            spec.range,
            spec.best,
            outcome.score if outcome.score is not None and outcome.score.detail else None,
        )

    def points(self, rows: Rows) -> Floats | None:
        """The hook's scores of these nodes, 0 to 100; ``None`` if it has no opinion."""
        if self.scores is None:
            return None
        return normalise(self.scores[rows], range=self.range, best=self.best)

    def verdict_on(self, rows: Rows) -> Verdict | None:
        """The hook's verdict on these nodes only."""
        verdict = self.verdict
        if verdict is None:
            return None
        places = rows if verdict.places is None else verdict.places[rows]
        return Verdict(verdict.codes[rows], verdict.reasons, verdict.values, places=places, sound=True)

    def voice(self, rows: Rows) -> Voice:
        """The hook's result for these nodes, in the journal's form."""
        verdict, points = self.verdict_on(rows), self.points(rows)
        refused, codes, values = refused_rows(verdict)
        if self.score is not None:
            values = (chosen(self.score.values, rows, self.score.scores.size),)
        return Voice(
            policy=self.policy,
            hook=self.hook,
            kind=self.kind,
            seconds=self.seconds,
            weight=self.weight,
            reasons=verdict.reasons if verdict else (),
            rows=refused,
            codes=codes,
            values=values,
            normalised=None if points is None else points.astype(np.float32),
            raw=None if self.scores is None else self.scores[rows].astype(np.float32),
            score_detail="" if self.score is None else self.score.detail,
        )

    @property
    def nbytes(self) -> int:
        """Roughly its size in memory."""
        parts: list[Any] = [] if self.scores is None else [self.scores]
        if self.score is not None:
            parts += self.score.values.values()
        if self.verdict is not None:
            by_name: Sequence[Mapping[str, Any]] = self.verdict.values
            parts += [self.verdict.codes, *(value for values in by_name for value in values.values())]
        return sum(map(value_bytes, parts))


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
