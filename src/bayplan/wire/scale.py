"""Scores on the wire: 0 to 100 inside, 0 to 10 in whole numbers outside. Only this file knows."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

MAX_EXTENDER_PRIORITY = 10
_STEP = 100 / MAX_EXTENDER_PRIORITY


def wire_scores(scores: ArrayLike) -> NDArray[np.uint8]:
    """Whole numbers in the same order: of two nodes, the better one never gets less."""
    steps = np.asarray(scores, dtype=np.float64) / _STEP + 0.5
    return np.minimum(np.maximum(steps, 0), MAX_EXTENDER_PRIORITY).astype(np.uint8)


def to_wire(scores: ArrayLike) -> list[int]:
    """The same as a list."""
    whole: list[int] = wire_scores(scores).tolist()
    return whole
