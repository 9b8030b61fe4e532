"""Bounds the time that an expression may take and the size of its values, before it runs.

A running expression cannot be interrupted and holds the interpreter, so one that could take long must
not start. Its inputs have no fixed size; the limits below are more than an honest cluster has.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bayplan.authoring.cel.quantity import FUNCTIONS
from bayplan.authoring.cel.reads import BadPlace, Reads
from bayplan.authoring.cel.schema import Entries, Items, Object, Scalar, Schema
from bayplan.authoring.cel.tree import (
    Call,
    Comprehension,
    Constant,
    Expr,
    Ident,
    ListOf,
    MapOf,
    Select,
    Tree,
)

# A step is about 0.1 µs, so this is a tenth of the time that a hook has.
STEPS_LIMIT = 1_000_000
BYTES_LIMIT = 10_000_000
PARTS_LIMIT = 1_000

_LIST_LENGTH = 50
_TEXT_BYTES = 512
# The API server allows four times as much for all annotations of an object together.
_ANNOTATION_BYTES = 65_536
_NUMBER_BYTES = 32
_ITERATION_STEPS = 10
# Bytes of text that a function processes per step, as measured; most only copy or compare.
_BYTES_PER_STEP = 256
_COPIED_BYTES_PER_STEP = 64
_SLOW = {
    **dict.fromkeys(["contains", "matches"], 8),
    **dict.fromkeys(["indexOf", "lastIndexOf", "replace", "reverse", "strings.quote", "trim"], 4),
    "split": 1,
}
# The longest output of `format` for the shortest clause.
_FORMATTED_BYTES = 200
# In the worst case, such as ``ababab``, a search compares the pattern at every place.
_SEARCHES = frozenset(["contains", "indexOf", "lastIndexOf", "matches", "replace", "split"])
_COMPARED_PER_STEP = 4_000
_SMALL = frozenset(
    (
        *("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "_&&_", "_||_", "!_", "@in", "@not_strictly_false"),
        *("_-_", "_*_", "_/_", "_%_", "-_", "int", "double", "uint", "bool", "timestamp", "duration", "size"),
        *("startsWith", "endsWith", "contains", "matches", "indexOf", "lastIndexOf", "hasValue"),
        *FUNCTIONS,
    )
)
# Functions written in Python are slow, and a regular expression is compiled each time.
_DEAR = {**dict.fromkeys(FUNCTIONS, 20), "matches": 200}


@dataclass(frozen=True)
class _Bound:
    """The upper bounds of a value's size and of the steps to compute it."""

    bytes: int = _NUMBER_BYTES
    length: int = 1
    item: "_Bound | None" = None
    steps: int = 1

    @property
    def each(self) -> "_Bound":
        return self.item or _Bound(self.bytes, self.length)


_NOTHING = _Bound(0, 0)


def check_cost(tree: Tree, reads: Reads) -> int:
    """The most steps that the expression can take; raises `BadPlace` if they, or its values, are too many."""
    walk = _Walk(reads.schemas)
    steps = walk.bound(tree.root, {}).steps
    if walk.parts > PARTS_LIMIT:
        raise BadPlace(f"it has {walk.parts} parts, more than {PARTS_LIMIT}", tree.root.id)
    if steps > STEPS_LIMIT:
        raise BadPlace(
            f"it may take too long: {steps:,} steps, {STEPS_LIMIT:,} at most"
            f" (a list of a pod or a node counts as {_LIST_LENGTH} long)",
            tree.root.id,
        )
    return steps


_Scope = Mapping[str, _Bound]


class _Walk:
    def __init__(self, schemas: Mapping[int, Schema]) -> None:
        self._schemas = schemas
        self.parts = 0

    def bound(self, expr: Expr, scope: _Scope) -> _Bound:
        self.parts += 1
        found = self._bound(expr, scope)
        if found.bytes > BYTES_LIMIT:
            raise BadPlace(f"it may build a value of {found.bytes:,} bytes, {BYTES_LIMIT:,} at most", expr.id)
        return found

    def _bound(self, expr: Expr, scope: _Scope) -> _Bound:
        match expr:
            case Constant(text=str(text)):
                return _Bound(len(text.encode()))
            case Ident(name=name) if name in scope:
                return scope[name]
            case Select(operand=operand):
                return self._part(expr, [self.bound(operand, scope)])
            case Call(args=args):
                return self._call(expr, [self.bound(arg, scope) for arg in args])
            case ListOf(items=parts) | MapOf(values=parts):
                keys = expr.keys if isinstance(expr, MapOf) else ()
                return _together([self.bound(part, scope) for part in (*keys, *parts)])
        return self._comprehension(expr, scope) if isinstance(expr, Comprehension) else _Bound()

    def _part(self, expr: Select | Call, args: list[_Bound]) -> _Bound:
        """The bound of a field of an object, or of an element of a list or a map."""
        operand = expr.operand if isinstance(expr, Select) else expr.args[0]
        schema = self._schemas.get(expr.id)
        of_object = isinstance(self._schemas.get(operand.id), Object)
        known = _size(schema) if of_object else args[0].each
        # A text in an object is copied at each read.
        copied = known.bytes // _COPIED_BYTES_PER_STEP if isinstance(schema, Scalar) else 0
        return _Bound(known.bytes, known.length, known.item, 1 + copied + sum(arg.steps for arg in args))

    def _call(self, expr: Call, args: list[_Bound]) -> _Bound:
        name = expr.function
        if name in ("_[_]", "_[?_]", "_?._"):
            return self._part(expr, args)
        size, length = _made(name, args)
        steps = _DEAR.get(name, 1) + sum(arg.steps for arg in args)
        steps += (size + sum(arg.bytes for arg in args)) // _SLOW.get(name, _BYTES_PER_STEP)
        if name in _SEARCHES:
            steps += args[0].bytes * args[1].bytes // _COMPARED_PER_STEP
        item = _Bound(args[0].bytes) if name == "split" else _largest([arg.item for arg in args])
        return _Bound(size, length, item, steps)

    def _comprehension(self, expr: Comprehension, scope: _Scope) -> _Bound:
        over, start = self.bound(expr.range, scope), self.bound(expr.start, scope)
        # What one iteration adds, as if the accumulator were empty: macros only ever add to it.
        inner = {**scope, expr.variable: over.each, expr.accumulator: _NOTHING}
        condition, step = self.bound(expr.condition, inner), self.bound(expr.step, inner)
        times = over.length
        length = start.length + times * max(1, step.length)
        total = _Bound(start.bytes + times * step.bytes, length, None if times else start.item)
        result = self.bound(expr.result, {**inner, expr.accumulator: total})
        once = _ITERATION_STEPS + condition.steps + step.steps
        steps = over.steps + start.steps + times * once + result.steps
        return _Bound(result.bytes, result.length, result.item, steps)


def _made(function: str, args: list[_Bound]) -> tuple[int, int]:
    """The most bytes and the greatest length of a function's result for these arguments."""
    every = sum(arg.bytes for arg in args)
    longest = max([1, *(arg.length for arg in args)])
    if function in _SMALL:
        return _NUMBER_BYTES, 1
    match function:
        case "_?_:_":
            return max(arg.bytes for arg in args), longest
        case "_+_":
            return every, sum(arg.length for arg in args)
        case "split":
            return every, args[0].bytes + 1
    size = {
        "replace": (args[0].bytes + 1) * max(1, args[-1].bytes) if args else 0,
        "join": every + args[0].length * args[-1].bytes if args else 0,
        "format": every + _FORMATTED_BYTES * args[0].bytes if args else 0,
        "strings.quote": 8 * every,
    }
    return size.get(function, every + _NUMBER_BYTES), longest


def _together(parts: list[_Bound]) -> _Bound:
    size, steps = sum(part.bytes for part in parts), 1 + sum(part.steps for part in parts)
    return _Bound(size, len(parts), _largest(parts) or _NOTHING, steps)


def _largest(items: Sequence[_Bound | None]) -> _Bound | None:
    """The largest bound; ``None`` if one is unknown."""
    known = [item for item in items if item is not None]
    return max(known, key=lambda item: item.bytes) if known and len(known) == len(items) else None


def _size(schema: Schema | None) -> _Bound:
    """The assumed bound of a part of a pod or a node."""
    if isinstance(schema, Items | Entries):
        item = _size(schema.of)
        long = isinstance(schema.of, Scalar) and schema.of.long
        return _Bound(item.bytes if long else _LIST_LENGTH * item.bytes, _LIST_LENGTH, item)
    if isinstance(schema, Scalar):
        return _Bound(_ANNOTATION_BYTES if schema.long else _TEXT_BYTES)
    # An object is passed by reference, so its size does not matter.
    return _Bound()
