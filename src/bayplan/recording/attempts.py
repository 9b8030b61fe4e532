"""How a recording encodes an attempt of the scheduler: the pod and nodes, and the result.

A scheduler filters and scores all nodes in one attempt. Scores are kept to a millionth: that is finer than
any policy means, and coarser than rounding differences between machines.
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
    """The result of an attempt: the nodes that pass, their scores, the refused nodes."""

    feasible: Sequence[str] = ()
    """Nodes that pass, if they have no scores."""
    scores: dict[str, float] = {}
    """The scores of the nodes that pass, 0 to 100."""
    best: Sequence[str] = ()
    """The nodes with the best score, one of which is chosen."""
    refused: dict[str, list[str]] = {}
    """Refused nodes, by ``policy: reason``."""
    error: str = ""


def encode_question(pod: Pod, names: Sequence[str] | None) -> bytes:
    """Encode the pod and, unless all nodes are candidates, the ``names`` of the nodes."""
    asked = None if names is None else list(names)
    return _ENCODER.encode(v1.ExtenderArgs(kept_pod(pod), None, asked))


def encode_verdict(choice: Choice) -> bytes:
    """Encode the result."""
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
