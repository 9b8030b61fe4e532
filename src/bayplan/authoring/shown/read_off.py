"""Whether a hook's answer about a node is about that node alone, and which parameters it does nothing with.

Most first policies compare labels. Such a function need not promise ``reads="node"``: its source shows it.
Where the source shows nothing, the hook is asked about each pod, as one that promises nothing is.
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

# Names, and numbers by their place, are those of the nodes that are asked about.
_FROM_A_TABLE = frozenset({Kind.ROWS, Kind.VERDICT, Kind.SCALAR, Kind.REASON})
# Who calls one of these may find a parameter without its name.
_BY_ANOTHER_WAY = frozenset({"locals", "vars", "dir", "eval", "exec"})


def read_off(function: Callable[..., Any], spec: HookSpec, source: FileSource | None) -> HookSpec:
    """The spec with what the source shows: that of the function's module, where there is one."""
    plain = function.__func__ if isinstance(function, MethodType) else function
    if not isinstance(plain, FunctionType):
        return spec
    found = replace(spec, idle=frozenset(_idle(plain.__code__, spec.parameters)))
    if spec.kind not in ("filter", "score") or spec.reads_said:
        return found
    proven = source is not None and _is_about_the_node(plain, spec, source)
    return replace(found, reads="node" if proven else "cluster")


def _idle(code: CodeType, parameters: Sequence[str]) -> Iterator[str]:
    """Many take ``pod`` because examples do."""
    if not _BY_ANOTHER_WAY.isdisjoint(code.co_names):
        return
    used: set[Any] = set()
    for step in dis.get_instructions(code):
        # From Python 3.13 on an instruction may be about two names.
        used.update(step.argval if isinstance(step.argval, tuple) else (step.argval,))
    # One that the code does not have is taken by another function inside it.
    yield from (name for name in parameters if name in code.co_varnames and name not in used)


def _is_about_the_node(function: FunctionType, spec: HookSpec, source: FileSource) -> bool:
    if not set(spec.parameters) <= PARAMETERS.keys():
        return False
    try:
        found = returned(function, {name: PARAMETERS[name] for name in spec.parameters}, source)
    except (Unproven, RecursionError):
        # Python itself runs longer chains than it lets us read.
        return False
    return found <= (PLAIN if spec.per_node else _FROM_A_TABLE)
