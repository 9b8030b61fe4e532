"""Converts scores of 0 to 100 to extender priorities of 0 to 10. Only this file knows the wire's scale."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

MAX_EXTENDER_PRIORITY = 10
_STEP = 100 / MAX_EXTENDER_PRIORITY


def wire_scores(scores: ArrayLike) -> NDArray[np.uint8]:
    """The priorities as an array; a better node never gets a lower priority."""
    steps = np.asarray(scores, dtype=np.float64) / _STEP + 0.5
    return np.minimum(np.maximum(steps, 0), MAX_EXTENDER_PRIORITY).astype(np.uint8)


def to_wire(scores: ArrayLike) -> list[int]:
    """The priorities as a list."""
    whole: list[int] = wire_scores(scores).tolist()
    return whole
