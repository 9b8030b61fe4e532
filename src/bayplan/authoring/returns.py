"""Finds functions that can only return ``None``: a hook that should return a number lacks its ``return``."""

import dis
from collections.abc import Callable
from itertools import pairwise
from types import CodeType
from typing import Any


def returns_something(function: Callable[..., Any]) -> bool:
    """False if the function can only return the constant ``None``; true if it cannot be told."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return True
    every = list(dis.get_instructions(code))
    for before, last in pairwise(every):
        nothing = before.opname == "LOAD_CONST" and before.argval is None
        # A jump to this return may bring another value.
        if last.opname == "RETURN_VALUE" and (last.is_jump_target or not nothing):
            return True
    # Python 3.12 and 3.13 have one instruction for both.
    return any(each.opname == "RETURN_CONST" and each.argval is not None for each in every)
