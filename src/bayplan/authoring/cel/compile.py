"""Compiles an expression, checks it, and bounds its cost.

Every error shows the expression with a caret under the place.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from bayplan.authoring.cel import quantity
from bayplan.authoring.cel.cost import check_cost
from bayplan.authoring.cel.other_languages import function_instead, operator_instead
from bayplan.authoring.cel.reads import COLUMN, OBJECTS, BadPlace, Reads, find_reads
from bayplan.authoring.cel.tree import Call, Constant, Expr, Tree, read_tree, with_root
from bayplan.authoring.cel.words import of_compilation, without_status
from bayplan.authoring.hooks import PolicyError
from bayplan.kube.yaml import suggest

if TYPE_CHECKING:
    from cel_expr_python import cel

LENGTH_LIMIT = 5_000
# Each of these macros doubles its operand before anything is checked.
_DOUBLING = re.compile(r"\bopt(?:Flat)?Map\b")
_DOUBLING_LIMIT = 4
_ERROR = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*)")
_UNDECLARED = re.compile(r"undeclared reference to '([^']*)'.*")
_EXPECTING = re.compile(r" expecting \{.*")
_SYNTAX = "Syntax error"
_OPERATOR = re.compile(r"'_?(\W+)_'")
_FUNCTIONS = (
    *quantity.FUNCTIONS,
    *("all", "exists", "exists_one", "filter", "has", "map", "matches", "size", "type"),
    *("bool", "double", "duration", "dyn", "int", "string", "timestamp", "uint"),
    *("contains", "endsWith", "startsWith", "charAt", "format", "indexOf", "join", "lastIndexOf"),
    *("lowerAscii", "replace", "reverse", "split", "substring", "trim", "upperAscii"),
    *("hasValue", "optFlatMap", "optMap", "or", "orValue", "value"),
)
# Functions that may take quantities; all others would see the bytes that represent them.
_FOR_QUANTITIES = frozenset(
    [*quantity.FUNCTIONS, "_==_", "_!=_", "_?_:_", "@in", "optional.of", "orValue", "or", "value"]
)
_QUANTITIES = (
    "quantities are compared with isLessThan, isGreaterThan or compareTo,"
    " and counted with add, sub or asApproximateFloat"
)
_SHOWN = 100


class CompileError(PolicyError):
    """An expression that cannot be used."""


@dataclass(frozen=True)
class Compiled:
    """An expression that is ready to run."""

    text: str
    program: "cel.Expression"
    reads: Reads
    returns: str
    """The type of the result: ``BOOL``, ``INT``, ``DYN``, ..."""
    steps: int
    """The upper bound of its cost."""
    tree: Tree
    variables: tuple[str, ...]


def compile_expression(text: str, variables: Sequence[str]) -> Compiled:
    """Compile an expression over these variables of `OBJECTS` and ``column``; raises `CompileError`."""
    if len(text) > LENGTH_LIMIT:
        raise CompileError(f"it has {len(text):,} characters, {LENGTH_LIMIT:,} at most")
    if len(_DOUBLING.findall(text)) > _DOUBLING_LIMIT:
        raise CompileError(f"optMap and optFlatMap may be used {_DOUBLING_LIMIT} times in one expression")
    try:
        program = _environment(tuple(variables)).compile(text)
    except (RuntimeError, TypeError, ValueError) as error:
        raise _explained(str(error), text, variables) from None
    tree = read_tree(program.serialize())
    try:
        _check_quantities(tree)
        reads = find_reads(tree, variables)
        steps = check_cost(tree, reads)
    except BadPlace as error:
        raise CompileError(f"{error}\n{_caret(text, _place(text, tree, error.at))}") from None
    returns = program.return_type().name()
    return Compiled(text, program, reads, returns, steps, tree, tuple(variables))


def compile_part(whole: Compiled, part: Expr) -> "cel.Expression":
    """Compile a part of an expression on its own; it was checked with the whole."""
    return _environment(whole.variables).deserialize(with_root(whole.program.serialize(), part))


@cache
def _environment(variables: tuple[str, ...]) -> "cel.Env":
    library, extensions = _library()
    kinds: Mapping[str, Any] = {
        **dict.fromkeys(OBJECTS, library.Type.DYN),
        COLUMN: library.Type.Map(library.Type.STRING, library.Type.DYN),
    }
    env: cel.Env = library.NewEnv(
        variables={name: kinds[name] for name in variables},
        extensions=extensions,
        functions=quantity.declarations(library),
    )
    return env


def _library() -> tuple[Any, list[Any]]:
    # Imported here, since the library is large and most configurations do not need it.
    try:
        from cel_expr_python import cel  # noqa: PLC0415
        from cel_expr_python.ext import ext_math, ext_optional, ext_strings  # noqa: PLC0415
    except ImportError as error:
        raise CompileError(f'expressions need a library: pip install "bayplan[cel]" ({error})') from error
    return cel, [ext_math.ExtMath(), ext_optional.ExtOptional(), ext_strings.ExtStrings()]


def _explained(message: str, text: str, variables: Sequence[str]) -> CompileError:
    """The library's first error, in our words."""
    found = _ERROR.search(message)
    if "recursion" in message:
        return CompileError("it is nested too deeply, 32 levels at most; brackets and long sums count")
    if found is None:
        plain = without_status(message)
        return CompileError(f"{plain[0].lower()}{plain[1:]}")
    offset = _offset(text, int(found[1]), int(found[2]))
    wrong = _EXPECTING.sub("", without_status(found[3]))
    if "'<EOF>'" in wrong:
        wrong = "it ends too early"
    elif wrong.startswith(_SYNTAX):
        wrong = operator_instead(text, offset) or wrong
    if wrong.startswith("has() argument"):
        wrong += "; of a map ask whether it has the key: 'rack' in node.metadata.labels"
    wrong = of_compilation(_OPERATOR.sub(r"'\1'", wrong))
    if undeclared := _UNDECLARED.match(wrong):
        name = undeclared[1].partition(".")[0]
        called = re.match(r"\s*\(", text[offset:]) is not None
        known = _FUNCTIONS if called else (*variables, *_FUNCTIONS)
        what = "function" if called else "name"
        # The library's offset is behind the name.
        offset = max(text.rfind(name, 0, offset + len(name)), 0)
        elsewhere = name in OBJECTS and not called
        hint = _variables(variables) if elsewhere else suggest(name, known) or _variables(variables)
        wrong = f"unknown {what} {name!r}{hint}"
        if called and name in known:
            wrong = f"{name!r} is not called with so many arguments, or not on this"
        elif called and (instead := function_instead(text, offset)):
            wrong = f"unknown {what} {name!r}; {instead}"
    return CompileError(f"{wrong.replace('bytes', 'quantity')}\n{_caret(text, offset)}")


def _variables(variables: Sequence[str]) -> str:
    return f"; the variables are: {', '.join(variables)}"


def _check_quantities(tree: Tree) -> None:
    """Refuse functions that would compare or join the bytes which represent quantities."""
    for expr in every(tree.root):
        if isinstance(expr, Constant) and expr.id in tree.quantities:
            raise BadPlace("bytes are not used here; write a text without the b", expr.id)
        if isinstance(expr, Call) and expr.function not in _FOR_QUANTITIES:
            if expr.function == "bytes":
                raise BadPlace("bytes are not used here; compare texts", expr.id)
            if any(arg.id in tree.quantities for arg in expr.args):
                raise BadPlace(_QUANTITIES, expr.id)


def every(expr: Expr) -> list[Expr]:
    """The part and all parts below it."""
    found = [expr]
    for value in vars(expr).values():
        parts = value if isinstance(value, tuple) else (value,)
        found += [below for part in parts if isinstance(part, Expr) for below in every(part)]
    return found


def _offset(text: str, line: int, column: int) -> int:
    """The offset of a place in code points; the library counts lines and columns from 1, or gives none."""
    lines = text.split("\n")
    if line > len(lines):
        return 0
    return min(sum(len(before) + 1 for before in lines[: line - 1]) + max(column - 1, 0), len(text))


def _place(text: str, tree: Tree, id: int) -> int:
    """The offset of a part in code points; for a field that of its name, not of its dot."""
    offset = tree.offsets.get(id, 0)
    dot = re.compile(r"\.\??\s*").match(text, offset)
    return dot.end() if dot else offset


def _caret(text: str, offset: int) -> str:
    """The line of the expression with the place, and a caret under it."""
    start = text.rfind("\n", 0, offset) + 1
    line, place = text[start:].partition("\n")[0], offset - start
    cut = max(0, place - _SHOWN // 2) if len(line) > _SHOWN else 0
    return f"    {line[cut : cut + _SHOWN]}\n    {' ' * (place - cut)}^"
