"""Measurements of the wire benchmark that were made up."""

from collections.abc import Sequence

from bench.wire_figures import FULL, NAMES, OURS, REFERENCE, Line, Times

__all__ = ["FULL", "NAMES", "line"]


def line(
    *ratios: float, mode: str = NAMES, nodes: int = 500, verb: str = "filter", peer: str = REFERENCE
) -> Line:
    """One verb at one size: a round for each ratio, in which we take 2 ms and the peer as many times that."""
    ours, theirs = _times([2.0] * len(ratios)), _times([2.0 * ratio for ratio in ratios])
    return Line(mode, nodes, verb, 1_000, 0.1, {OURS: ours, peer: theirs})


def _times(milliseconds: Sequence[float]) -> Times:
    return Times.of([[one / 1000] * 200 for one in milliseconds])
