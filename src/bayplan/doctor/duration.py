"""Durations as Go reads them, which has more units than our own configuration, and as it writes them."""

import re

_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}
# Go counts nanoseconds in 63 bits: 292 years.
_MOST_SECONDS = 2**63 / 1e9


def go_seconds(text: str) -> float | None:
    """The seconds of ``1m30s``; ``None`` where Go would refuse it."""
    unsigned = text.removeprefix("-").removeprefix("+")
    if unsigned == "0":
        return 0.0
    parts = _PART.findall(unsigned)
    if not parts or "".join(number + unit for number, unit in parts) != unsigned:
        return None
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if seconds > _MOST_SECONDS:
        return None
    return -seconds if text.startswith("-") else seconds


def in_words(seconds: float) -> str:
    """``5s``, ``250ms``, ``5ns``: as short as it is exact enough."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if abs(seconds) >= size:
            return f"{seconds / size:.6g}{unit}"
    return f"{seconds / 1e-9:.6g}ns"
