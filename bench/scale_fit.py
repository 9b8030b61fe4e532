"""How something grows: a straight line through medians, and the power of the growth with its spread.

The power is that of what comes on top of the smallest size. A straight line has 1 whatever it starts with, so
a large constant cannot hide what grows too fast. Rounds are drawn again and again, with replacement, to see
how far the power could be off.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

# More than a straight line by more than caches and measurement explain.
LIMIT = 1.1
_DRAWS, _SEED = 400, 3

Rounds = Mapping[int, Sequence[float]]
"""A median for each round, by size."""


@dataclass(frozen=True)
class Growth:
    """What was fitted: ``constant + each * size``, and the power over the upper sizes."""

    constant: float
    each: float
    power: float | None
    """``None`` where nothing grew that could be told from chance."""
    low: float | None
    high: float | None
    """Where 95 of 100 draws are."""

    @property
    def verdict(self) -> str:
        """Whether it is worse than linear."""
        if self.power is None or self.low is None:
            return "cannot be told: too little growth beside the noise"
        if self.low > LIMIT:
            return "WORSE THAN LINEAR"
        if self.power > LIMIT:
            return "perhaps worse than linear: measure again"
        return "linear or better"


def grow(rounds: Rounds, *, upper: int) -> Growth:
    """Fit it; the power is that of the sizes from ``upper`` on, above the smallest size."""
    sizes = sorted(rounds)
    constant, each = straight_line(sizes, [median(rounds[size]) for size in sizes])
    found = power(sizes, [median(rounds[size]) for size in sizes], upper=upper)
    dice = random.Random(_SEED)  # noqa: S311 - the same each time
    count = len(rounds[sizes[0]])
    drawn: list[float] = []
    for _ in range(_DRAWS):
        # The same rounds at every size: what disturbed one round disturbed all of it.
        picked = [dice.randrange(count) for _ in range(count)]
        medians = [median([rounds[size][number] for number in picked]) for size in sizes]
        one = power(sizes, medians, upper=upper)
        if one is not None:
            drawn.append(one)
    if found is None or len(drawn) < _DRAWS * 0.95:
        return Growth(constant, each, None, None, None)
    drawn.sort()
    low, high = drawn[int(0.025 * len(drawn))], drawn[int(0.975 * len(drawn)) - 1]
    return Growth(constant, each, found, low, high)


def straight_line(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float]:
    """Constant and slope, by least squares of the relative errors: each size counts the same."""
    weights = [1 / y**2 for y in ys]
    total = sum(weights)
    middle_x = sum(w * x for w, x in zip(weights, xs, strict=True)) / total
    middle_y = sum(w * y for w, y in zip(weights, ys, strict=True)) / total
    across = sum(w * (x - middle_x) * (y - middle_y) for w, x, y in zip(weights, xs, ys, strict=True))
    along = sum(w * (x - middle_x) ** 2 for w, x in zip(weights, xs, strict=True))
    return middle_y - across / along * middle_x, across / along


def power(xs: Sequence[float], ys: Sequence[float], *, upper: float) -> float | None:
    """The slope of the logarithms above the first point, from ``upper`` on; ``None`` without growth."""
    above = [(x - xs[0], y - ys[0]) for x, y in zip(xs, ys, strict=True) if x >= upper and x > xs[0]]
    if len(above) < 2 or any(y <= 0 for _, y in above):
        return None
    logs = [(math.log(x), math.log(y)) for x, y in above]
    middle_x = sum(x for x, _ in logs) / len(logs)
    middle_y = sum(y for _, y in logs) / len(logs)
    return sum((x - middle_x) * (y - middle_y) for x, y in logs) / sum((x - middle_x) ** 2 for x, _ in logs)
