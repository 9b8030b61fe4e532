"""How a recording tells of an attempt to place a pod: the question, and what was said to it.

A scheduler filters and scores in one go, over all nodes. Scores are kept to a millionth: that is finer than
any policy means, and coarser than what another machine may add up differently.
"""

from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec import Struct

from bayplan.engine.choose import Choice
from bayplan.kube.pod import Pod
from bayplan.recording.redact import kept_pod
from bayplan.wire import v1

VERB = "schedule"
_ENCODER = msgspec.json.Encoder()
_DIGITS = 6


class Verdict(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Where a pod may go, and where it had best go."""

    feasible: Sequence[str] = ()
    """Nodes that pass, where they have no scores."""
    scores: dict[str, float] = {}
    """Of the nodes that pass, 0 to 100."""
    best: Sequence[str] = ()
    """Of those with scores the best: any of these is taken."""
    refused: dict[str, list[str]] = {}
    """Nodes by ``policy: reason``."""
    error: str = ""


def encode_question(pod: Pod, names: Sequence[str] | None) -> bytes:
    """The question; ``names`` where it is not about all nodes."""
    asked = None if names is None else list(names)
    return _ENCODER.encode(v1.ExtenderArgs(kept_pod(pod), None, asked))


def encode_verdict(choice: Choice) -> bytes:
    """What was said."""
    filtered, scored = choice.filtered, choice.scored
    names = filtered.nodes.names
    refused: dict[str, list[str]] = {}
    for outcome, reason, rows in filtered.groups():
        there = refused.setdefault(f"{outcome.hook.policy}: {reason.text}", [])
        there.extend(names[row] for row in rows.tolist())
    scores: dict[str, float] = {}
    if scored is not None and scored.total is not None:
        rounded = np.round(scored.total, _DIGITS).tolist()
        scores = dict(zip(scored.nodes.names, rounded, strict=True))
    said = Verdict(
        feasible=() if scores else choice.feasible,
        scores=scores,
        best=choice.best if scores else (),
        refused=refused,
        error=filtered.error or (scored.error if scored is not None else ""),
    )
    return _ENCODER.encode(said)
