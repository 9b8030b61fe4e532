"""Whether a function can return anything: one that cannot, where a number is wanted, lacks its ``return``."""

import dis
from collections.abc import Callable
from itertools import pairwise
from types import CodeType
from typing import Any


def returns_something(function: Callable[..., Any]) -> bool:
    """False where every way out of the function returns ``None`` as such; True where nobody can tell."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return True
    every = list(dis.get_instructions(code))
    for before, last in pairwise(every):
        nothing = before.opname == "LOAD_CONST" and before.argval is None
        # Whoever jumps there brings something along.
        if last.opname == "RETURN_VALUE" and (last.is_jump_target or not nothing):
            return True
    # Python 3.12 and 3.13 have one instruction for both.
    return any(each.opname == "RETURN_CONST" and each.argval is not None for each in every)
