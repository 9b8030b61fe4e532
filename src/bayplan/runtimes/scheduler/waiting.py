"""One pod that waits for a node: where it is, and what became of its attempts."""

from dataclasses import dataclass, field
from typing import Any, Literal

from bayplan.kube.pod import Pod

Place = Literal["active", "backoff", "unschedulable", "gated", "asking", "held", "gang", "taken", "placed"]
News = frozenset[str]
"""What happened: ``pods`` (gone or smaller), ``placed`` (one came to a node), ``nodes``, a kind, a source."""

ANYTHING: News = frozenset({"*"})
"""A refusal that does not say what could help: everything may that happens."""


@dataclass
class Waiting:
    """A pod in the queue, and what became of its attempts."""

    pod: Pod
    since: float
    """When it was first seen, or let in."""
    place: Place = "active"
    attempts: int = 0
    helped_by: News = ANYTHING
    """What could change the last refusal."""
    refused_by: frozenset[str] = frozenset()
    """The policies that refused it at last."""
    erred: bool = False
    """Whether the last attempt went wrong, rather than that no node would do."""
    tried_at: float = 0.0
    """When it was judged at last, or kept out."""
    key: Any = None
    """Where it stands, as a policy said; ``None`` where its priority says that."""
    kept_out: str = ""
    """Why a policy keeps it out."""
    changed: bool = False
    """Whether it is another one than it was when it was taken."""
    ticket: int = field(default=0, compare=False)
    """Of its present place: whatever stands in a heap with another number is old."""
    seen: int = field(default=0, compare=False)
    """How much news there had been when it was taken."""
