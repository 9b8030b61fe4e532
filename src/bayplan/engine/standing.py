"""What policies say of every node of the cluster about pods of a kind, as long as nodes stay as they are.

Where every hook promises that its answer about a node depends on that node alone (`reads="node"`), the answer
about any nodes is a part of the one about all of them. So a pod like one that came before needs no policy: it
takes a look at each node's line. The record is the same as if the hooks had been asked.

Nothing of the cluster is kept here, nor of the policies: the journal has it long after both are others.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from bayplan.authoring.registry import Policy
from bayplan.authoring.scope import EVERY_POD
from bayplan.authoring.verdict import Reason, Verdict
from bayplan.engine.combine import combine, normalise
from bayplan.engine.cycle import Question, filter_nodes, interested, score_nodes
from bayplan.engine.decision import Outcome, Rows
from bayplan.engine.entry import Voice, value_bytes
from bayplan.engine.guard import Attempt
from bayplan.engine.journal import refused_rows
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot

Floats = NDArray[np.float64]
PASSES = 0
MOST_REFUSALS = 255
"""Each is a byte."""


class Said(Struct, frozen=True, eq=False):
    """What one hook says about each node."""

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

    @classmethod
    def of(cls, outcome: Outcome) -> "Said":
        """What came of the hook, asked about all of them."""
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
        )

    def points(self, rows: Rows) -> Floats | None:
        """The scores of these nodes on the common scale; ``None`` where it has none to give."""
        if self.scores is None:
            return None
        return normalise(self.scores[rows], range=self.range, best=self.best)

    def verdict_on(self, rows: Rows) -> Verdict | None:
        """The verdict on these nodes alone."""
        verdict = self.verdict
        if verdict is None:
            return None
        places = rows if verdict.places is None else verdict.places[rows]
        return Verdict(verdict.codes[rows], verdict.reasons, verdict.values, places=places, sound=True)

    def voice(self, rows: Rows) -> Voice:
        """What it says about these nodes, as the journal has it."""
        verdict, points = self.verdict_on(rows), self.points(rows)
        refused, codes, values = refused_rows(verdict)
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
        )

    @property
    def nbytes(self) -> int:
        """Roughly what it takes."""
        parts: list[Any] = [] if self.scores is None else [self.scores]
        if self.verdict is not None:
            by_name: Sequence[Mapping[str, Any]] = self.verdict.values
            parts += [self.verdict.codes, *(value for values in by_name for value in values.values())]
        return sum(map(value_bytes, parts))


class Standing(Struct, frozen=True, eq=False, dict=True):
    """What is said about each node of the cluster, for pods of one kind."""

    filters: tuple[Said, ...]
    scores: tuple[Said, ...]
    totals: Floats | None
    """Combined scores that hold whichever nodes are asked about; ``None`` where there are no such."""
    refused_by: NDArray[np.int16]
    """A number a node: the filter that refuses it, or -1."""
    verdicts: NDArray[np.uint8]
    """A number a node: 0 passes, ``k`` is refused for ``refusals[k - 1]``."""
    refusals: tuple[tuple[str, Reason], ...]
    """Policies with their reasons."""

    def total(self, rows: Rows) -> Floats | None:
        """The combined scores of these nodes alone; ``None`` where nobody has any to give."""
        if self.totals is not None:
            return self.totals[rows]
        heard = [(points, said.weight) for said in self.scores if (points := said.points(rows)) is not None]
        if not heard:
            return None
        return combine([points for points, _ in heard], [weight for _, weight in heard], len(rows))

    @cached_property
    def nbytes(self) -> int:
        """Roughly what it takes."""
        totals = 0 if self.totals is None else self.totals.nbytes
        said = sum(said.nbytes for said in (*self.filters, *self.scores))
        return self.verdicts.nbytes + self.refused_by.nbytes + totals + said


def may_stand(policies: Sequence[Policy]) -> bool:
    """Whether there can be pods about whom everything is known: a policy for every pod may prevent it."""
    around = any(policy.scope is EVERY_POD and looks_around(policy) for policy in policies)
    return bool(policies) and not around


def learn(policies: Sequence[Policy], pod: Pod, cluster: Snapshot, attempt: Attempt) -> Standing | None:
    """Ask about every node of the cluster; ``None`` where that is no answer for a part of them, too."""
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
        tuple(map(Said.of, filtered.outcomes)),
        tuple(map(Said.of, scored.outcomes)),
        scored.total if absolute else None,
        filtered.refused_by,
        verdicts,
        tuple((outcome.hook.policy, reason) for outcome, reason, _ in groups),
    )


def _is_relative(outcome: Outcome) -> bool:
    """Whether a score hangs on who is asked about: it is stretched, or has no opinion about some nodes."""
    gaps = outcome.normalised is None or bool(np.isnan(outcome.normalised).any())
    return gaps or outcome.hook.spec.range is None


def looks_around(policy: Policy) -> bool:
    """Whether a hook of the policy may look at more than the node it answers about, or does not count."""
    hooks = (*policy.of_kind("filter"), *policy.of_kind("score"))
    # What is left when none would remain, and what is prepared, is a matter of more than one node.
    if policy.of_kind("prefer") or (hooks and policy.of_kind("prepare")):
        return True
    return any(hook.spec.reads != "node" or policy.shadow for hook in hooks)
