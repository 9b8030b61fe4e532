"""Finds mistyped keys, so that they are refused instead of silently ignored."""

import difflib
from collections.abc import Iterable

# Allows for one letter wrong, missing, doubled or out of place in a word of usual length.
_ALIKE = 0.85


def mistyped(key: str, given: Iterable[str], *, alike: float = _ALIKE) -> str | None:
    """The given key that is probably a mistyped ``key``; ``None`` if ``key`` itself is given.

    Both halves of ``example.com/gpu-count`` must be alike, so that keys of other software are not refused.
    ``alike`` is how much alike, up to 1.
    """
    keys = list(given)
    if key in keys:
        return None
    domain, _, name = key.rpartition("/")
    for other in keys:
        their_domain, _, their_name = other.rpartition("/")
        if _alike(domain, their_domain, alike) and _alike(name, their_name, alike):
            return other
    return None


def _alike(one: str, other: str, cutoff: float) -> bool:
    return bool(one == other or difflib.get_close_matches(one, [other], cutoff=cutoff))
