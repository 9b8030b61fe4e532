"""Infers from a hook's source whether it reads the node alone, and which parameters it does not use.

Most first policies compare labels. Such a function need not declare ``reads="node"``: its source proves it.
If the source proves nothing, the hook is called for each pod, as with ``reads="cluster"``.
"""

import dis
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import CodeType, FunctionType, MethodType
from typing import Any

from bayplan.authoring.hooks import HookSpec
from bayplan.authoring.shown.functions import returned
from bayplan.authoring.shown.module import FileSource
from bayplan.authoring.shown.words import PARAMETERS, PLAIN, Kind, Unproven

# What a hook over the table may return. A dict of names or a plain list depends on which nodes are
# candidates.
_FROM_A_TABLE = frozenset({Kind.ROWS, Kind.VERDICT, Kind.SCALAR, Kind.REASON})
# Functions that reach a parameter without naming it.
_REACH_WITHOUT_NAME = frozenset({"locals", "vars", "dir", "eval", "exec"})


def read_off(function: Callable[..., Any], spec: HookSpec, source: FileSource | None) -> HookSpec:
    """The spec with ``reads`` and ``idle`` inferred; ``source`` is that of the function's module, if any."""
    plain = function.__func__ if isinstance(function, MethodType) else function
    if not isinstance(plain, FunctionType):
        return spec
    found = replace(spec, idle=frozenset(_idle(plain.__code__, spec.parameters)))
    if spec.kind not in ("filter", "score") or spec.reads_said:
        return found
    proven = source is not None and _is_about_the_node(plain, spec, source)
    return replace(found, reads="node" if proven else "cluster")


def _idle(code: CodeType, parameters: Sequence[str]) -> Iterator[str]:
    """The parameters that the code does not use: many hooks take ``pod`` only because examples do."""
    if not _REACH_WITHOUT_NAME.isdisjoint(code.co_names):
        return
    used: set[Any] = set()
    for step in dis.get_instructions(code):
        # From Python 3.13 on an instruction may have two names.
        used.update(step.argval if isinstance(step.argval, tuple) else (step.argval,))
    # A parameter that is not in co_varnames is used by a function inside this one.
    yield from (name for name in parameters if name in code.co_varnames and name not in used)


def _is_about_the_node(function: FunctionType, spec: HookSpec, source: FileSource) -> bool:
    if not set(spec.parameters) <= PARAMETERS.keys():
        return False
    try:
        found = returned(function, {name: PARAMETERS[name] for name in spec.parameters}, source)
    except (Unproven, RecursionError):
        # The visitor recurses deeper than Python's own compiler does.
        return False
    return found <= (PLAIN if spec.per_node else _FROM_A_TABLE)
