"""Converts the results of ``order`` hooks to keys, any two of which can be compared.

All pods are in one queue, and a hook may return a number for one pod and a text for another. A key that
Python cannot compare must be found before it is in the heap, where it would stop the whole queue.
"""

import math
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

import numpy as np

from bayplan.authoring.lift import BadResult
from bayplan.authoring.registry import Hook
from bayplan.kube.pod import Pod

Key = tuple[tuple[int, Any], ...]
"""Parts, each with its kind in front: numbers sort before texts, and texts before tuples."""

_NUMBER, _TEXT, _TUPLE = range(3)
_PARTS, _DEPTH = 32, 4


def priority_key(pod: Pod) -> Key:
    """The key of a pod without an ``order`` hook: as if a hook had returned ``-pod.priority``."""
    return ((_NUMBER, -pod.priority),)


def order_key(hook: Hook, available: dict[str, Any]) -> Key | None:
    """The key from an ``order`` hook; ``None`` if the hook leaves the pod to its priority."""
    result = hook.call(available)
    if result is None:
        return None
    parts = result if isinstance(result, tuple | list) else (result,)
    try:
        return _key(parts, depth=_DEPTH)
    except ValueError as error:
        raise BadResult(
            f"{hook.title}: {error}; want a number, a text, a time with its zone, a tuple of these, or None"
        ) from None


def _key(parts: Any, *, depth: int) -> Key:
    if len(parts) > _PARTS or not depth:
        raise ValueError(f"the key has more than {_PARTS} parts, or tuples {_DEPTH} deep")
    return tuple(_part(part, depth) for part in parts)


def _part(part: Any, depth: int) -> tuple[int, Any]:
    if isinstance(part, np.generic):
        part = part.item()
    if isinstance(part, str):
        # A plain str, since a derived class may define its own comparison.
        return _TEXT, str.__str__(part)
    if isinstance(part, tuple | list):
        return _TUPLE, _key(part, depth=depth - 1)
    return _NUMBER, _number(part)


def _number(part: Any) -> int | float | Fraction:
    if isinstance(part, int):
        return int.__index__(part)
    if type(part) is Fraction:
        return part
    seconds = None
    if isinstance(part, float):
        seconds = float.__float__(part)
    elif isinstance(part, datetime) and part.tzinfo is not None:
        seconds = part.timestamp()
    elif isinstance(part, timedelta):
        seconds = part.total_seconds()
    if seconds is None:
        raise ValueError(f"the key has a {type(part).__name__} in it")
    if math.isnan(seconds):
        raise ValueError("NaN comes neither before nor after anything")
    return seconds
