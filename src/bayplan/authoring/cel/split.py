"""Splits an expression into parts that read the node alone or the pod alone, and their comparison.

Each side of ``node.metadata.labels['rack'] == pod.metadata.labels['rack']`` runs by itself: the node's once
per distinct node, for all pods, and the pod's once per pod. Only certain answers are used: if a part fails
or has another type, the expression is run as a whole, which gives the error.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bayplan.authoring.cel.compile import Compiled, compile_part, every
from bayplan.authoring.cel.reads import COLUMN
from bayplan.authoring.cel.tree import Call, Expr, Ident
from bayplan.snapshot.strings import Strings

if TYPE_CHECKING:
    from cel_expr_python import cel

Bools = NDArray[np.bool_]
Texts = tuple[str, ...]
Value = str | bool | frozenset[str] | None
"""A value that can be compared here; ``None`` for any other type, and for a failure."""

_SPARE = 1_000


@dataclass(frozen=True)
class Sure:
    """Where a part is certainly true or certainly false: one bool each per distinct node, or one for all."""

    true: Bools
    false: Bools


Rule = Callable[[Any, Texts], Sure]


def split(compiled: Compiled) -> Rule | None:
    """The rule that gives certain answers for a pod and distinct nodes; ``None`` if it cannot be split."""
    root = compiled.tree.root
    # Without the pod, the answers per distinct node hold for all pods already.
    return _rule(compiled, root) if "pod" in _reads(root) else None


def _rule(compiled: Compiled, expr: Expr) -> Rule | None:
    reads = _reads(expr)
    if not reads <= {"pod", "node"}:
        # The values of columns change with each bind.
        return None
    if "pod" not in reads:
        side = _NodeSide(compile_part(compiled, expr))
        return lambda _, texts: side.over(texts).sure
    if "node" not in reads:
        program = compile_part(compiled, expr)
        return lambda pod, _: _sure([_run(program, {"pod": pod})])
    if isinstance(expr, Call) and expr.function in _COMPARED:
        return _comparison(compiled, expr)
    return _logic(compiled, expr) if isinstance(expr, Call) and expr.function in _LOGIC else None


def _logic(compiled: Compiled, expr: Call) -> Rule | None:
    """The rule of ``&&``, ``||``, ``!`` or ``?:`` over parts that are rules themselves."""
    combine = _LOGIC[expr.function]
    parts = [part for arg in expr.args if (part := _rule(compiled, arg)) is not None]
    if len(parts) < len(expr.args):
        return None
    return lambda pod, texts: combine(*(part(pod, texts) for part in parts))


def _comparison(compiled: Compiled, expr: Call) -> Rule | None:
    """The rule of ``==``, ``!=`` or ``in`` between a part of the node and one of the pod, in either order."""
    left, right = expr.args
    pod_is_left = "node" not in _reads(left)
    of_pod, of_node = (left, right) if pod_is_left else (right, left)
    if "node" in _reads(of_pod) or "pod" in _reads(of_node):
        return None
    program, side = compile_part(compiled, of_pod), _NodeSide(compile_part(compiled, of_node))
    compare = _COMPARED[expr.function]
    return lambda pod, texts: compare(side.over(texts), _run(program, {"pod": pod}), pod_is_left)


def _reads(expr: Expr) -> set[str]:
    """The variables that the part reads; macro variables cannot have the same names."""
    names = {part.name for part in every(expr) if isinstance(part, Ident)}
    return names & {"pod", "node", COLUMN}


class _Column:
    """The values of a part, one per distinct node."""

    def __init__(self, texts: Texts, values: list[Value]) -> None:
        self.texts = texts
        self.values = values

    @cached_property
    def sure(self) -> Sure:
        """Where it is true or false."""
        return _sure(self.values)

    @cached_property
    def strings(self) -> Strings:
        """The texts, absent where the value is no text."""
        return Strings.intern(value if isinstance(value, str) else None for value in self.values)


class _NodeSide:
    """A part that reads the node alone: run once per distinct node."""

    def __init__(self, program: "cel.Expression") -> None:
        self._program = program
        self._known: dict[str, Value] = {}
        self._last = _Column((), [])

    def over(self, texts: Texts) -> _Column:
        """Its values for these nodes."""
        last = self._last
        # The same object until a node changes in what the expression reads.
        if last.texts is not texts:
            known = self._learn(texts)
            self._last = last = _Column(texts, [known[text] for text in texts])
        return last

    def _learn(self, texts: Texts) -> dict[str, Value]:
        # A local reference, since another thread may drop unused values.
        known = self._known
        for text in texts:
            # Stored one by one: after a deadline the next call goes on from here.
            if text not in known:
                known[text] = _run(self._program, {"node": msgspec.json.decode(text)})
        if len(known) > 2 * len(texts) + _SPARE:
            self._known = {text: known[text] for text in texts}
        return known


def _run(program: "cel.Expression", data: dict[str, Any]) -> Value:
    """The value: a text, a bool, or the set of a list's texts or of a map's keys."""
    try:
        value = program.eval(data=data)
        plain = value.value()
    except (RuntimeError, TypeError):
        return None
    # By the type's name, since the value of an error is a text too.
    kind = value.type().name().partition("<")[0]
    if kind == "LIST":
        return _members([item.value() if item.type().name() == "STRING" else None for item in plain])
    if kind == "MAP":
        return _members(list(plain))
    return plain if kind in ("STRING", "BOOL") else None


def _members(values: list[Any]) -> frozenset[str] | None:
    return frozenset(values) if all(type(value) is str for value in values) else None


def _sure(values: list[Value]) -> Sure:
    return Sure(_bools([v is True for v in values]), _bools([v is False for v in values]))


def _bools(values: list[bool]) -> Bools:
    return np.array(values, dtype=np.bool_)


def _equal(column: _Column, value: Value, pod_is_left: bool) -> Sure:
    del pod_is_left
    if not isinstance(value, str):
        return _NOT_SURE
    equal = column.strings == value
    return Sure(equal, column.strings.present & ~equal)


def _unequal(column: _Column, value: Value, pod_is_left: bool) -> Sure:
    return _not(_equal(column, value, pod_is_left))


def _in(column: _Column, value: Value, pod_is_left: bool) -> Sure:
    if pod_is_left:
        if not isinstance(value, str):
            return _NOT_SURE
        lists = [each if isinstance(each, frozenset) else None for each in column.values]
        found = _bools([each is not None and value in each for each in lists])
        return Sure(found, _bools([each is not None for each in lists]) & ~found)
    if not isinstance(value, frozenset):
        return _NOT_SURE
    found = column.strings.isin(value)
    return Sure(found, column.strings.present & ~found)


def _and(left: Sure, right: Sure) -> Sure:
    return Sure(left.true & right.true, left.false | right.false)


def _or(left: Sure, right: Sure) -> Sure:
    return Sure(left.true | right.true, left.false & right.false)


def _not(one: Sure) -> Sure:
    return Sure(one.false, one.true)


def _choice(condition: Sure, then: Sure, otherwise: Sure) -> Sure:
    return Sure(
        (condition.true & then.true) | (condition.false & otherwise.true),
        (condition.true & then.false) | (condition.false & otherwise.false),
    )


_NOT_SURE = Sure(_bools([False]), _bools([False]))
_COMPARED: Mapping[str, Callable[[_Column, Value, bool], Sure]] = {
    "_==_": _equal,
    "_!=_": _unequal,
    "@in": _in,
}
_LOGIC: Mapping[str, Callable[..., Sure]] = {"_&&_": _and, "_||_": _or, "!_": _not, "_?_:_": _choice}
