"""Compares two decisions on the same question: the live one, and that of a candidate configuration."""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from bayplan.engine.decision import Decision

Result = Literal["same", "refuses_more", "accepts_more", "mixed", "other_node"]
Turn = Literal["", "refused", "admitted"]
"""How the outcome for a pod changes: ``refused`` if no node is left, ``admitted`` if one is left now."""
ToWire = Callable[[NDArray[np.float64]], Sequence[float]]

_SHOWN = 3


class Word(Struct, frozen=True, rename="camel"):
    """The verdict or score of one side on one node."""

    passes: bool = True
    policy: str = ""
    """The policy that refused the node."""
    reason: str = ""
    detail: str = ""
    score: float | None = None
    """0 to 10 as sent to kube-scheduler, 0 to 100 in our scheduler; null if not scored."""


class NodeDifference(Struct, frozen=True, rename="camel"):
    """A node on which the two decisions differ."""

    node: str
    live: Word
    candidate: Word


class Said(Struct, frozen=True, rename="camel"):
    """The decision of one side, summed up."""

    passed: int
    why_none: str = ""
    """Why no node is left; ``""`` if one is."""
    best: tuple[str, ...] = ()
    """The first few of the best nodes, if nodes were scored."""
    best_count: int = 0


class Difference(Struct, frozen=True, rename="camel"):
    """How the candidate's decision differs from the live one."""

    result: Result
    live: Said
    candidate: Said
    offered: int
    refused: int = 0
    """How many nodes pass live but not with the candidate."""
    accepted: int = 0
    """How many nodes pass with the candidate but not live."""
    turn: Turn = ""
    nodes: tuple[NodeDifference, ...] = ()
    """A few of the nodes on which the decisions differ."""


def filtered_differently(live: Decision, candidate: Decision) -> Difference:
    """Compare which nodes pass; different reasons for a refusal are no difference."""
    passed, would_pass = live.passed, candidate.passed
    refused, accepted = np.flatnonzero(passed & ~would_pass), np.flatnonzero(would_pass & ~passed)
    rows = [*refused[:_SHOWN].tolist(), *accepted[:_SHOWN].tolist()]
    result: Result = "same"
    if refused.size:
        result = "mixed" if accepted.size else "refuses_more"
    elif accepted.size:
        result = "accepts_more"
    names = live.nodes.names
    return Difference(
        result,
        _said(live),
        _said(candidate),
        offered=len(names),
        refused=int(refused.size),
        accepted=int(accepted.size),
        turn=turn(first=bool(passed.any()), second=bool(would_pass.any())),
        nodes=tuple(NodeDifference(names[row], _word(live, row), _word(candidate, row)) for row in rows),
    )


def scored_differently(live: Decision, candidate: Decision, *, to_wire: ToWire) -> Difference:
    """Compare which nodes are best, by the scores that are sent to kube-scheduler."""
    names = live.nodes.names
    scores: list[Sequence[float]] = [
        [0] * len(names) if d.total is None else to_wire(d.total) for d in (live, candidate)
    ]
    best, would_be_best = (best_rows(each) for each in scores)
    result: Result = "same" if best == would_be_best else "other_node"
    rows = sorted(set(best) - set(would_be_best))[:_SHOWN]
    rows += sorted(set(would_be_best) - set(best))[:_SHOWN]
    return Difference(
        result,
        _best(names, best),
        _best(names, would_be_best),
        offered=len(names),
        nodes=tuple(
            NodeDifference(names[row], Word(score=scores[0][row]), Word(score=scores[1][row])) for row in rows
        ),
    )


def turn(*, first: bool, second: bool) -> Turn:
    """How the outcome for a pod changes; ``first`` and ``second``: whether a node is left."""
    if first == second:
        return ""
    return "refused" if first else "admitted"


def best_rows(scores: Sequence[float]) -> list[int]:
    """The rows with the highest score."""
    highest = max(scores, default=0)
    return [row for row, score in enumerate(scores) if score == highest]


def why_none(decision: Decision) -> str:
    """Why no node is left, in a few words; ``""`` if one is."""
    if decision.error:
        return decision.error
    if decision.passed.any():
        return ""
    counts = [f"{len(rows)} {reason.text}" for _, reason, rows in decision.groups()]
    if decision.not_in_view:
        counts.append(f"{len(decision.not_in_view)} not in view")
    return ", ".join(counts) or "no node was asked about"


def _said(decision: Decision) -> Said:
    return Said(int(np.count_nonzero(decision.passed)), why_none(decision))


def _best(names: Sequence[str], rows: Sequence[int]) -> Said:
    return Said(len(names), best=tuple(names[row] for row in rows[:_SHOWN]), best_count=len(rows))


def _word(decision: Decision, row: int) -> Word:
    refusal = decision.refusal(row)
    if refusal is None:
        return Word()
    return Word(passes=False, policy=refusal.policy, reason=refusal.reason.text, detail=refusal.detail)
