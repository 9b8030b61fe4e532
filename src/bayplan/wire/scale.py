"""Scores on the wire: 0 to 100 inside, 0 to 10 in whole numbers outside. Only this file knows."""

from collections.abc import Iterable

MAX_EXTENDER_PRIORITY = 10
_STEP = 100 / MAX_EXTENDER_PRIORITY


def to_wire(scores: Iterable[float]) -> list[int]:
    """Whole numbers in the same order: of two nodes, the better one never gets less."""
    return [min(MAX_EXTENDER_PRIORITY, max(0, int(score / _STEP + 0.5))) for score in scores]
