"""What kube-scheduler's page of metrics says: attempts by their result, and how long they took.

Only the lines of one metric are looked at: the page has 270 KB.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import pairwise

ATTEMPTS = "scheduler_schedule_attempts_total"
ATTEMPT_SECONDS = "scheduler_scheduling_attempt_duration_seconds"
ALGORITHM_SECONDS = "scheduler_scheduling_algorithm_duration_seconds"
"""Of an attempt, what comes before the bind; extenders are part of it."""

_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Histogram:
    """How many observations were at most so long: ``(seconds, how many)``, the last one for infinity."""

    buckets: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        rising = all(low < high for (low, _), (high, _) in pairwise(self.buckets))
        if not self.buckets or not rising or not math.isinf(self.buckets[-1][0]):
            raise ValueError(f"buckets must rise, and end with infinity: {self.buckets}")

    @property
    def count(self) -> float:
        """All observations."""
        return self.buckets[-1][1]

    def quantile(self, share: float) -> float:
        """The seconds that `share` of the observations stayed below, as Prometheus would tell it.

        Inside a bucket observations count as spread evenly. Beyond the last bound nothing is known: it is
        that bound then, which is too little.
        """
        if self.count <= 0:
            raise ValueError("nothing was observed: there is no quantile")
        wanted = share * self.count
        lower, below = 0.0, 0.0
        for bound, count in self.buckets:
            if count >= wanted and count > below:
                return (
                    lower
                    if math.isinf(bound)
                    else lower + (bound - lower) * (wanted - below) / (count - below)
                )
            lower, below = bound, count
        raise AssertionError("the last bucket holds all observations")


def attempts(page: str) -> dict[str, int]:
    """How many attempts ended so far, by result: ``scheduled``, ``unschedulable``, ``error``."""
    found: dict[str, int] = {}
    for labels, value in _samples(page, ATTEMPTS):
        found[labels["result"]] = found.get(labels["result"], 0) + int(value)
    return found


def durations(page: str, name: str) -> Histogram:
    """A histogram, over all profiles; where it is divided by result, of the pods that were scheduled."""
    counts: dict[float, float] = {}
    for labels, value in _samples(page, f"{name}_bucket"):
        if labels.get("result", "scheduled") == "scheduled":
            bound = float(labels["le"])
            counts[bound] = counts.get(bound, 0.0) + value
    if not counts:
        raise ValueError(f"kube-scheduler shows no {name}: another version, or no pod scheduled yet")
    return Histogram(tuple(sorted(counts.items())))


def _samples(page: str, name: str) -> list[tuple[dict[str, str], float]]:
    lines = re.findall(rf"^{name}\{{(.*)\}} (\S+)$", page, re.MULTILINE)
    return [(dict(_LABEL.findall(labels)), float(value)) for labels, value in lines]
