"""Infers the kind of an expression; raises `Unproven` if a part of it is not in `words`."""

import ast
import math
from collections.abc import Callable, Sequence
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from bayplan.authoring.shown.constants import Constants
from bayplan.authoring.shown.words import (
    ATTRIBUTES,
    FUNCTIONS,
    METHODS,
    NUMBERS,
    OF_MODULES,
    PLAIN,
    READ_TO_THE_END,
    ROW_BY_ROW,
    Kind,
    Unproven,
    is_of_node,
    one_of,
    worked_out,
)
from bayplan.authoring.verdict import Reason
from bayplan.snapshot.columns import Label, NodeAnnotation
from bayplan.snapshot.sources import Latch, Source

_COLUMNS = (Label, NodeAnnotation, Source, Latch)

Called = Callable[[FunctionType, list[Kind]], Kind]
"""Returns the kind that a function of the same module returns for arguments of these kinds."""


class Expressions(ast.NodeVisitor):
    """Infers the kinds of expressions in one function."""

    def __init__(
        self, constants: Constants, globals_: dict[str, Any], own: frozenset[str], called: Called
    ) -> None:
        """``own`` are the function's local names; their kinds are in `local`, once known."""
        self.local: dict[str, Kind] = {}
        self._constants = constants
        self._globals = globals_
        self._own = own
        self._called = called

    def generic_visit(self, node: ast.AST) -> Kind:  # noqa: ARG002 - any of them
        """Every expression without a method of its own is unproven."""
        raise Unproven

    def plain(self, expression: ast.expr) -> Kind:
        """The kind of an expression that must be plain data; raises `Unproven` for a column or a node."""
        kind = self.of(expression)
        if kind not in PLAIN:
            raise Unproven
        return kind

    def of(self, expression: ast.expr) -> Kind:
        """The kind of the expression."""
        kind: Kind = self.visit(expression)
        return kind

    def bind(self, target: ast.expr, kind: Kind) -> None:
        """Give a name a kind. A name may have one kind, or several plain ones."""
        match target:
            case ast.Name(id=name):
                self.local[name] = (
                    kind if self.local.get(name, kind) is kind else one_of([self.local[name], kind])
                )
            case ast.Tuple(elts=targets) if kind in PLAIN:
                for one in targets:
                    self.bind(one, Kind.VALUE)
            case _:
                raise Unproven

    def is_builtin(self, name: str) -> bool:
        """Whether the name is a builtin in this function."""
        return name not in self._own and self._constants.is_builtin(name)

    def visit_Constant(self, _: ast.Constant) -> Kind:
        return Kind.SCALAR

    def visit_Name(self, name: ast.Name) -> Kind:
        if name.id in self._own:
            if name.id not in self.local:
                raise Unproven
            return self.local[name.id]
        if not self._constants.is_constant(name.id):
            raise Unproven
        value = self._globals[name.id]
        if isinstance(value, Reason):
            return Kind.REASON
        if isinstance(value, _COLUMNS):
            return Kind.COLUMN
        return Kind.SCALAR if value is None or isinstance(value, str | int | float) else Kind.VALUE

    def visit_Attribute(self, attribute: ast.Attribute) -> Kind:
        module = self._module(attribute.value)
        if module is not None:
            stays = attribute.attr in NUMBERS and not self._constants.changes(attribute.attr)
            if module not in (math, np) or not stays:
                raise Unproven
            return Kind.SCALAR
        found = ATTRIBUTES.get((self.of(attribute.value), attribute.attr))
        if found is None:
            raise Unproven
        return found

    def visit_Subscript(self, item: ast.Subscript) -> Kind:
        kind = self.of(item.value)
        if kind in PLAIN:
            self.plain(item.slice)
            return Kind.SCALAR if kind is Kind.BY_KEY else Kind.VALUE
        known = isinstance(item.slice, ast.Constant) and is_of_node(item.slice.value)
        if kind not in (Kind.NODE, Kind.NODES) or not (known or self.of(item.slice) is Kind.COLUMN):
            raise Unproven
        return Kind.ROWS if kind is Kind.NODES else Kind.SCALAR

    def visit_Slice(self, slice_: ast.Slice) -> Kind:
        return self._made_of([one for one in (slice_.lower, slice_.upper, slice_.step) if one is not None])

    def visit_Compare(self, compared: ast.Compare) -> Kind:
        for op, other in zip(compared.ops, compared.comparators, strict=True):
            # Whether equal texts are the same object depends on memory.
            if isinstance(op, ast.Is | ast.IsNot) and not isinstance(other, ast.Constant):
                raise Unproven
        kind = worked_out([self.of(one) for one in (compared.left, *compared.comparators)])
        if kind is not Kind.ROWS:
            return kind
        if len(compared.ops) > 1 or isinstance(compared.ops[0], ast.In | ast.NotIn | ast.Is | ast.IsNot):
            # `a < b < c` takes the truth value of a column, which is an error.
            raise Unproven
        return kind

    def visit_BinOp(self, operation: ast.BinOp) -> Kind:
        kinds = [self.of(operation.left), self.of(operation.right)]
        if kinds == [Kind.VERDICT, Kind.VERDICT] and isinstance(operation.op, ast.BitOr):
            return Kind.VERDICT
        if isinstance(operation.op, ast.MatMult):
            raise Unproven
        return worked_out(kinds)

    def visit_UnaryOp(self, operation: ast.UnaryOp) -> Kind:
        kind = worked_out([self.of(operation.operand)])
        if kind is Kind.ROWS and isinstance(operation.op, ast.Not):
            raise Unproven
        return kind

    def visit_BoolOp(self, operation: ast.BoolOp) -> Kind:
        return one_of([self.of(one) for one in operation.values])

    def visit_IfExp(self, choice: ast.IfExp) -> Kind:
        self.plain(choice.test)
        return one_of([self.of(choice.body), self.of(choice.orelse)])

    def visit_JoinedStr(self, text: ast.JoinedStr) -> Kind:
        self._made_of(text.values)
        return Kind.SCALAR

    def visit_FormattedValue(self, value: ast.FormattedValue) -> Kind:
        return self._made_of([value.value] if value.format_spec is None else [value.value, value.format_spec])

    def visit_Tuple(self, several: ast.Tuple) -> Kind:
        return self._made_of(several.elts)

    def visit_List(self, several: ast.List) -> Kind:
        return self._made_of(several.elts)

    def visit_Set(self, several: ast.Set) -> Kind:
        return self._with_keys(several.elts, several.elts)

    def visit_Dict(self, several: ast.Dict) -> Kind:
        return self._with_keys(several.keys, several.values)

    def visit_GeneratorExp(self, loop: ast.GeneratorExp) -> Kind:
        self._looped(loop.generators, loop.elt)
        return Kind.STREAM

    def visit_ListComp(self, loop: ast.ListComp) -> Kind:
        self._looped(loop.generators, loop.elt)
        return Kind.VALUE

    def visit_Call(self, call: ast.Call) -> Kind:
        match call.func:
            case ast.Attribute(value=value, attr=name):
                module = self._module(value)
                return (
                    self._method(call, value, name) if module is None else self._of_module(call, module, name)
                )
            case ast.Name(id=name) if name not in self._own:
                return self._function(call, name)
        raise Unproven

    def _method(self, call: ast.Call, value: ast.expr, name: str) -> Kind:
        kind, given = self.of(value), self._given(call)
        if kind is Kind.REASON and name == "where" and {Kind.ROWS, Kind.SCALAR}.issuperset(given):
            return Kind.VERDICT
        if kind in PLAIN and name == "join" and {*PLAIN, Kind.STREAM}.issuperset(given):
            return Kind.VALUE
        if not PLAIN.issuperset(given):
            raise Unproven
        if kind is Kind.ROWS and name == "isin":
            return Kind.ROWS
        if kind is Kind.BY_KEY and name == "get":
            return one_of([Kind.SCALAR, *given[1:]])
        if (kind in PLAIN and name in METHODS) or (kind is Kind.POD and name == "tolerates"):
            return Kind.VALUE
        raise Unproven

    def _of_module(self, call: ast.Call, module: ModuleType, name: str) -> Kind:
        given = self._given(call)
        if self._constants.changes(name):
            raise Unproven
        if module is np and ROW_BY_ROW.get(name) == len(call.args) == len(given):
            return worked_out(given)
        made = getattr(module, name, None)
        if PLAIN.issuperset(given) and (made is Reason or name in OF_MODULES.get(module, ())):
            return Kind.REASON if made is Reason else Kind.VALUE
        raise Unproven

    def _function(self, call: ast.Call, name: str) -> Kind:
        given = self._given(call)
        if self.is_builtin(name):
            taken = {*PLAIN, Kind.STREAM} if name in READ_TO_THE_END else PLAIN
            if name not in FUNCTIONS or not taken.issuperset(given):
                raise Unproven
            return FUNCTIONS[name]
        called = self._globals[name] if self._constants.stays(name) else None
        if called is Reason and PLAIN.issuperset(given):
            return Kind.REASON
        if isinstance(called, FunctionType) and called.__globals__ is self._globals and not call.keywords:
            return self._called(called, given)
        raise Unproven

    def _given(self, call: ast.Call) -> list[Kind]:
        return [self.of(one) for one in (*call.args, *(keyword.value for keyword in call.keywords))]

    def _made_of(self, expressions: list[ast.expr]) -> Kind:
        for one in expressions:
            self.plain(one)
        return Kind.VALUE

    def _with_keys(self, keys: Sequence[ast.expr | None], values: list[ast.expr]) -> Kind:
        if not all(isinstance(key, ast.Constant) for key in keys):
            raise Unproven
        return self._made_of(values)

    def _looped(self, loops: list[ast.comprehension], made: ast.expr) -> None:
        local, own = self.local, self._own
        self.local = dict(local)
        for loop in loops:
            self.plain(loop.iter)
            names = {one.id for one in ast.walk(loop.target) if isinstance(one, ast.Name)}
            # The comprehension's variable hides an outer name.
            self._own |= names
            self.local = {name: kind for name, kind in self.local.items() if name not in names}
            self.bind(loop.target, Kind.VALUE)
            self._made_of(loop.ifs)
        self.plain(made)
        self.local, self._own = local, own

    def _module(self, value: ast.expr) -> ModuleType | None:
        """The module that a name stands for; ``None`` if it is no module."""
        if not isinstance(value, ast.Name) or value.id in self._own or not self._constants.stays(value.id):
            return None
        found = self._globals[value.id]
        return found if isinstance(found, ModuleType) else None
