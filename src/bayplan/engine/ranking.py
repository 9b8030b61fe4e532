"""Ranks the nodes that passed, with each policy's part of the score and its worth in kube-scheduler.

In kube-scheduler a node's total is the sum over all plugins of 0 to 100 times the plugin's weight, and an
extender is one term of it. So the best node of an extender need not be chosen.
"""

from collections.abc import Callable

import numpy as np
from msgspec import Struct

from bayplan.engine.entry import Entry, Voice

_RANKED = 10
_POINTS_A_STEP = 10
# kube-scheduler's default weights; DynamicResources is left out, since it scores only pods with claims.
_PLUGINS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesFit": 1,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}
PLUGIN_POINTS = {name: weight * 100 for name, weight in _PLUGINS.items()}
"""The most that each of kube-scheduler's own plugins can add to a node, with its default weight."""

ToWire = Callable[[np.ndarray], list[int]]
"""Converts scores to those that kube-scheduler gets."""


class Contribution(Struct, frozen=True, rename="camel"):
    """What one hook adds to a node's score."""

    policy: str
    hook: str
    score: float
    """The hook's score, 0 to 100."""
    weight: float
    points: float
    """The hook's part of the node's total."""
    detail: str = ""
    """The numbers behind the score, if the hook tells them."""


class Ranked(Struct, frozen=True, rename="camel"):
    """A node that passed, and its score."""

    node: str
    total: float
    """0 to 100."""
    wire: int
    """The score sent to kube-scheduler, 0 to 10; 0 in our scheduler."""
    points: float
    """The points that this adds in kube-scheduler: ``wire x weight x 10``."""
    contributions: list[Contribution]
    place: int = 0
    """1 for the best."""


def rank(
    entry: Entry,
    *,
    to_wire: ToWire | None,
    weight: float,
    chosen: str = "",
    limit: int = _RANKED,
) -> list[Ranked]:
    """The best nodes of a scored entry, and the chosen one whatever its place.

    ``to_wire`` is ``None`` if Bayplan places pods itself.
    """
    if entry.total is None:
        return []
    heard = [voice for voice in entry.voices if voice.normalised is not None and not voice.shadow]
    order = np.argsort(-entry.total, kind="stable")
    places = list(range(min(limit, order.size)))
    if chosen:
        late = order[limit:].tolist()
        places += [place for place, row in enumerate(late, limit) if entry.name(row) == chosen]
    wire = to_wire(entry.total[order[places]]) if to_wire else [0] * len(places)
    return [
        Ranked(
            node=entry.name(row),
            total=float(entry.total[row]),
            wire=told,
            points=told * weight * _POINTS_A_STEP,
            contributions=_contributions(heard, row),
            place=place + 1,
        )
        for place, told in zip(places, wire, strict=True)
        for row in [int(order[place])]
    ]


def _contributions(heard: list[Voice], row: int) -> list[Contribution]:
    # A hook without an opinion about a node has no weight there.
    scores = [(v, float(v.normalised[row])) for v in heard if v.normalised is not None]
    speaking = [(voice, score) for voice, score in scores if not np.isnan(score)]
    weights = sum(voice.weight for voice, _ in speaking) or 1.0
    return [
        Contribution(
            voice.policy, voice.hook, score, voice.weight, score * voice.weight / weights, voice.behind(row)
        )
        for voice, score in speaking
    ]
