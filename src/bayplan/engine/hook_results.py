"""What one hook that looks at single nodes says about every node of the cluster."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from msgspec import Struct

from bayplan.authoring.registry import Hook
from bayplan.authoring.verdict import Score, Verdict
from bayplan.engine.combine import Floats, normalise
from bayplan.engine.decision import Outcome, Rows
from bayplan.engine.entry import Voice, value_bytes
from bayplan.engine.journal import chosen, refused_rows


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

    def outcome(self, hook: Hook, rows: Rows) -> Outcome:
        """The outcome for these nodes of ``hook``, whose results these are: it takes no time of its own."""
        if self.scores is None:
            return Outcome(hook, 0.0, self.verdict_on(rows))
        scores = self.scores[rows]
        said = Score(scores)
        if self.score is not None:
            values = chosen(self.score.values, rows, self.score.scores.size)
            said = Score(scores, detail=self.score.detail, **values)
        points = normalise(scores, range=self.range, best=self.best)
        return Outcome(hook, 0.0, score=said, normalised=points, weight=self.weight)

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
