"""Combines the scores of many policies into one score for each node, 0 to 100."""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_SMALL, _LARGE = 1e-9, 1e9

NEUTRAL = 50.0
"""The score of a node that no policy has an opinion about, and of all nodes if a hook scores them equally."""


def normalise(
    scores: Floats,
    *,
    range: tuple[float, float] | None = None,
    best: Literal["high", "low"] = "high",
) -> Floats:
    """Scale scores to 0 to 100; NaN stays NaN.

    With a declared range the scale is absolute, and scores outside it are clipped. Without one the lowest
    score becomes 0 and the highest 100; equal scores all become 50.
    """
    if range == (0, 100):
        # Whole numbers stay whole: sums of them are compared for equality.
        clipped = scores if _within(scores) else np.clip(scores, 0.0, 100.0)
        return 100.0 - clipped if best == "low" else clipped
    if range is None:
        opinions = scores[~np.isnan(scores)]
        if not opinions.size:
            return scores
        range = float(opinions.min()), float(opinions.max())
    low, high = range
    if low == high:
        return np.where(np.isnan(scores), np.nan, NEUTRAL)
    if math.isinf(high - low):
        # The difference of two finite floats may overflow; that of their halves does not. Only then: half of
        # the smallest float is 0.
        scores, low, high = scores / 2, low / 2, high / 2
    # Not `np.clip`, which is slower.
    scaled = (np.minimum(np.maximum(scores, low), high) - low) / (high - low) * 100.0
    return 100.0 - scaled if best == "low" else scaled


def _within(scores: Floats) -> bool:
    """Whether all scores are within 0 to 100 already; False if one is NaN."""
    return bool(scores.size and scores.min() >= 0.0 and scores.max() <= 100.0)


def combine(scores: Sequence[Floats], weights: Sequence[float], count: int) -> Floats:
    """The weighted mean of normalised scores, for each node over the hooks that have an opinion about it."""
    if len(scores) == 1 and weights[0] and not math.isnan(scores[0].sum()):
        return scores[0]
    # Only the ratio of weights counts. Whole weights and whole scores give exact sums, so equal nodes stay
    # equal; extreme weights are divided by the largest one, so that a sum cannot overflow.
    scale = 1.0 if all(_SMALL < given < _LARGE for given in weights) else max(weights)
    total, everywhere = np.zeros(count), 0.0
    weight: Floats | None = None
    for values, given in zip(scores, weights, strict=True):
        factor = given / scale
        if not math.isnan(values.sum()):
            total += values if factor == 1.0 else values * factor
            everywhere += factor
            continue
        opinion = ~np.isnan(values)
        weight = np.zeros(count) if weight is None else weight
        total[opinion] += values[opinion] * factor
        weight[opinion] += factor
    if weight is None:
        return total / everywhere if everywhere else np.full(count, NEUTRAL)
    weight += everywhere
    mean: Floats = np.divide(total, weight, out=np.full(count, NEUTRAL), where=weight > 0)
    return mean
