"""From the scores of many policies to one number a node, 0 to 100."""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

NEUTRAL = 50.0
"""Given to a node that nobody has an opinion about, and to all where there is nothing to tell apart."""


def normalise(
    scores: Floats,
    *,
    range: tuple[float, float] | None = None,
    best: Literal["high", "low"] = "high",
) -> Floats:
    """Scores on the scale 0 to 100, in the same order; NaN stays NaN.

    With a declared range the scale is absolute and what lies outside is clipped. Without one the
    lowest becomes 0 and the highest 100; equal scores all become 50.
    """
    opinions = scores[~np.isnan(scores)]
    if not opinions.size:
        return scores
    low, high = range or (float(opinions.min()), float(opinions.max()))
    if low == high:
        return np.where(np.isnan(scores), np.nan, NEUTRAL)
    if math.isinf(high - low):
        # The distance between two finite floats need not be finite; that of their halves is. Only
        # then: the half of the smallest float is 0.
        scores, low, high = scores / 2, low / 2, high / 2
    scaled = (np.clip(scores, low, high) - low) / (high - low) * 100.0
    return 100.0 - scaled if best == "low" else scaled


def combine(scores: Sequence[Floats], weights: Sequence[float], count: int) -> Floats:
    """The weighted mean of normalised scores, over those who have an opinion about the node."""
    total = np.zeros(count)
    weight = np.zeros(count)
    # Only the proportions count: of the heaviest, so that no sum of weights leaves the floats.
    heaviest = max(weights, default=1.0)
    for values, given in zip(scores, weights, strict=True):
        factor = given / heaviest
        opinion = ~np.isnan(values)
        total[opinion] += values[opinion] * factor
        weight[opinion] += factor
    mean: Floats = np.divide(total, weight, out=np.full(count, NEUTRAL), where=weight > 0)
    return mean
