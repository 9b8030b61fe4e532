"""Finds mistyped keys, so that they are refused instead of silently ignored."""

import difflib
from collections.abc import Iterable

# Allows for one letter wrong, missing, doubled or out of place in a word of usual length.
_ALIKE = 0.85


def mistyped(key: str, given: Iterable[str]) -> str | None:
    """The given key that is probably a mistyped ``key``; ``None`` if ``key`` itself is given.

    Both halves of ``example.com/gpu-count`` must be alike, so that keys of other software are not refused.
    """
    keys = list(given)
    if key in keys:
        return None
    domain, _, name = key.rpartition("/")
    for other in keys:
        their_domain, _, their_name = other.rpartition("/")
        if _alike(domain, their_domain) and _alike(name, their_name):
            return other
    return None


def _alike(one: str, other: str) -> bool:
    return bool(one == other or difflib.get_close_matches(one, [other], cutoff=_ALIKE))
