"""A pod in the queue: its place, and the results of its attempts."""

from dataclasses import dataclass, field
from typing import Any, Literal

from bayplan.kube.pod import Pod

Place = Literal["active", "backoff", "unschedulable", "gated", "asking", "held", "gang", "taken", "placed"]
News = frozenset[str]
"""Topics of an event: ``pods`` (gone or smaller), ``placed`` (on a node), ``nodes``, a kind, a source."""

ANYTHING: News = frozenset({"*"})
"""The topics of a refusal that does not say what could help: any event may."""


@dataclass
class Waiting:
    """A pod in the queue, and the results of its attempts."""

    pod: Pod
    since: float
    """When the pod was first seen, or let in."""
    place: Place = "active"
    attempts: int = 0
    helped_by: News = ANYTHING
    """The events that could change the last refusal."""
    refused_by: frozenset[str] = frozenset()
    """The policies of the last refusal."""
    erred: bool = False
    """Whether the last attempt failed with an error, rather than for lack of a node."""
    tried_at: float = 0.0
    """When the pod was last judged, or kept out."""
    key: Any = None
    """The sort key of an ``order`` hook; ``None`` to sort by priority."""
    kept_out: str = ""
    """Why a gate keeps the pod out."""
    changed: bool = False
    """Whether the pod changed since it was taken."""
    ticket: int = field(default=0, compare=False)
    """Changes with each move: an item in a heap with another ticket is stale."""
    seen: int = field(default=0, compare=False)
    """How many events there had been when the pod was taken."""
