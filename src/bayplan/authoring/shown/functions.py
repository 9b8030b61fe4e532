"""Infers the kinds that a function may return, statement by statement; raises `Unproven` for all else."""

import ast
from collections.abc import Sequence
from types import FunctionType

from bayplan.authoring.shown.expressions import Expressions
from bayplan.authoring.shown.module import FileSource
from bayplan.authoring.shown.words import FUNCTIONS, Kind, Unproven, one_of, worked_out

_DEEP = 4


def returned(
    function: FunctionType, parameters: dict[str, Kind], source: FileSource, *, depth: int = 0
) -> set[Kind]:
    """The kinds that a function of the module may return for parameters of these kinds."""
    asked = function.__code__, tuple(parameters.items())
    if asked not in source.known:
        try:
            source.known[asked] = _returned(function, parameters, source, depth)
        except Unproven:
            source.known[asked] = None
    found = source.known[asked]
    if found is None:
        raise Unproven
    return found


def _returned(
    function: FunctionType, parameters: dict[str, Kind], source: FileSource, depth: int
) -> set[Kind]:
    code = function.__code__
    if depth > _DEEP or function.__defaults__ or function.__kwdefaults__ or code.co_freevars:
        raise Unproven

    def called(other: FunctionType, given: list[Kind]) -> Kind:
        names = other.__code__.co_varnames[: other.__code__.co_argcount]
        if len(names) != len(given):
            raise Unproven
        found = returned(other, dict(zip(names, given, strict=True)), source, depth=depth + 1)
        return next(iter(found)) if len(found) == 1 else one_of(list(found))

    own = frozenset((*code.co_varnames, *code.co_cellvars))
    expressions = Expressions(source.constants, function.__globals__, own, called)
    expressions.local = dict(parameters)
    statements = _Statements(expressions)
    statements.block(source.definition(code).body)
    # A function without a return statement returns None.
    return statements.returned or {Kind.SCALAR}


class _Statements(ast.NodeVisitor):
    """Visits the statements of one function, and collects the kinds that it returns."""

    def __init__(self, expressions: Expressions) -> None:
        self.returned: set[Kind] = set()
        self._expressions = expressions

    def generic_visit(self, node: ast.AST) -> None:  # noqa: ARG002 - any of them
        """Every statement without a method of its own is unproven."""
        raise Unproven

    def block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            self.visit(statement)

    def visit_Pass(self, _: ast.Pass) -> None:
        pass

    def visit_Break(self, _: ast.Break) -> None:
        pass

    def visit_Continue(self, _: ast.Continue) -> None:
        pass

    def visit_Expr(self, statement: ast.Expr) -> None:
        self._expressions.plain(statement.value)

    def visit_Return(self, statement: ast.Return) -> None:
        if statement.value is not None:
            self.returned.add(self._expressions.of(statement.value))

    def visit_If(self, statement: ast.If) -> None:
        self._expressions.plain(statement.test)
        self.block(statement.body)
        self.block(statement.orelse)

    def visit_Assign(self, statement: ast.Assign) -> None:
        kind = self._expressions.of(statement.value)
        for target in statement.targets:
            self._expressions.bind(target, kind)

    def visit_AnnAssign(self, statement: ast.AnnAssign) -> None:
        if statement.value is not None:
            self._expressions.bind(statement.target, self._expressions.of(statement.value))

    def visit_AugAssign(self, statement: ast.AugAssign) -> None:
        target = statement.target
        if not isinstance(target, ast.Name) or not isinstance(statement.op, ast.Add | ast.Sub):
            raise Unproven
        before = self._expressions.visit_Name(target)
        kind = worked_out([before, self._expressions.of(statement.value)])
        if kind is Kind.ROWS:
            # `+=` would change the shared column in place.
            raise Unproven
        self._expressions.bind(target, kind)

    def visit_For(self, statement: ast.For) -> None:
        self._expressions.plain(statement.iter)
        self._expressions.bind(statement.target, Kind.VALUE)
        before: dict[str, Kind] | None = None
        while before != self._expressions.local:
            # The kinds at the end of one round are those at the beginning of the next: repeat until stable.
            before = dict(self._expressions.local)
            self.block(statement.body)
        self.block(statement.orelse)

    def visit_Try(self, statement: ast.Try) -> None:
        columns = {Kind.NODES, Kind.ROWS}.intersection(self._expressions.local.values())
        if columns or any(map(self._may_read_columns, ast.walk(statement))):
            # One node's value makes reading a whole column fail: the except branch then depends on other
            # nodes.
            raise Unproven
        self.block(statement.body)
        for handler in statement.handlers:
            types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
            if handler.name or not all(map(self._is_builtin, types)):
                raise Unproven
            self.block(handler.body)
        self.block(statement.orelse)
        self.block(statement.finalbody)

    def _may_read_columns(self, part: ast.AST) -> bool:
        """Whether this may read a column: by a subscript, or in another function."""
        match part:
            case ast.Subscript(value=ast.Name()):
                return True
            case ast.Call(func=ast.Name(id=name)):
                return name not in FUNCTIONS or not self._expressions.is_builtin(name)
        return False

    def _is_builtin(self, name: ast.expr | None) -> bool:
        return isinstance(name, ast.Name) and self._expressions.is_builtin(name.id)
