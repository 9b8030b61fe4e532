"""Finds the names of a module that are constant once it is loaded.

A name that a function may bind again, or a list that code may append to, is not constant.
"""

import ast
import builtins
import re
from collections.abc import Mapping
from typing import Any

from bayplan.authoring.verdict import Reason
from bayplan.snapshot.columns import Label, NodeAnnotation
from bayplan.snapshot.sources import Latch, Source

_SCALARS = (str, bytes, int, float, bool, type(None))
_FROZEN = (re.Pattern, Reason, Label, NodeAnnotation, Source, Latch)
# With one of these anywhere in a module, any of its names may be bound again.
_DYNAMIC = frozenset(
    {"globals", "locals", "vars", "setattr", "delattr", "exec", "eval", "reload"}
    | {"__import__", "__builtins__", "__dict__", "__setattr__", "__globals__", "__code__", "f_globals"}
)
_ANY = "*"
_ONLY_READ = frozenset({"get", "keys", "values", "items", "count", "index"})


class Constants:
    """The constant names of one module, as far as its source proves them."""

    def __init__(self, tree: ast.Module, names: Mapping[str, Any]) -> None:
        self._names = names
        self._parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
        self._body = tree.body
        self._uses: dict[str, list[ast.Name]] = {}
        self._changing: set[str] = set()
        self._shared: set[str] = set()
        self._dynamic = False
        for one in ast.walk(tree):
            self._note(one)

    def _note(self, one: ast.AST) -> None:
        match one:
            case ast.Name(id=name):
                self._uses.setdefault(name, []).append(one)
                self._dynamic |= name in _DYNAMIC
            case ast.Global(names=several):
                self._changing.update(several)
            case ast.Attribute(attr=name):
                # Perhaps an attribute of this module, imported under another name.
                self._dynamic |= name in _DYNAMIC
                (self._shared if isinstance(one.ctx, ast.Load) else self._changing).add(name)
            case ast.alias(name=name, asname=given):
                self._dynamic |= name in _DYNAMIC
                self._shared.add(given or name.partition(".")[0])
            case ast.Constant(value=str(text)):
                self._dynamic |= text in _DYNAMIC
            case ast.Match():
                # Patterns bind names without ast.Name.
                self._shared.add(_ANY)

    def stays(self, name: str) -> bool:
        """Whether the name is never bound again; its value may still be mutable."""
        return not self._dynamic and name in self._names and name not in self._changing

    def changes(self, name: str) -> bool:
        """Whether the module may change an attribute or a global of that name."""
        return self._dynamic or name in self._changing

    def is_builtin(self, name: str) -> bool:
        """Whether the name is a builtin that the module never replaces."""
        replaced = name in self._names or name in self._changing or self._dynamic
        return not replaced and hasattr(builtins, name)

    def is_constant(self, name: str) -> bool:
        """Whether the value never changes: a number, a text, a `Label`, a dict that is only read."""
        if not self.stays(name):
            return False
        value = self._names[name]
        return _is_frozen(value) or (_is_flat(value) and self._is_only_read(name))

    def _is_only_read(self, name: str) -> bool:
        """Whether the module binds the name once, to a literal, and only reads it."""
        bound = [use for use in self._uses.get(name, ()) if not isinstance(use.ctx, ast.Load)]
        if len(bound) != 1 or not self._shared.isdisjoint({name, _ANY}):
            return False
        statement = self._parents[bound[0]]
        if statement not in self._body:
            return False
        match statement:
            case ast.Assign(targets=[_], value=value) | ast.AnnAssign(value=ast.expr() as value):
                pass
            case _:
                return False
        if not isinstance(value, ast.Dict | ast.Set | ast.List):
            # A value made by a function may be referred to, and changed, elsewhere too.
            return False
        return all(use is bound[0] or self._reads(use) for use in self._uses[name])

    def _reads(self, use: ast.Name) -> bool:
        parent = self._parents[use]
        match parent:
            case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[found]):
                return found is use
            case ast.Subscript(value=found, ctx=ast.Load()):
                return found is use
            case ast.Attribute(attr=method, ctx=ast.Load()):
                called = self._parents[parent]
                return method in _ONLY_READ and isinstance(called, ast.Call) and called.func is parent
            case ast.For(iter=found) | ast.comprehension(iter=found):
                return found is use
        return False


def _is_frozen(value: Any) -> bool:
    if type(value) in _SCALARS or type(value) in _FROZEN:
        return True
    return type(value) in (tuple, frozenset) and all(map(_is_frozen, value))


def _is_flat(value: Any) -> bool:
    """Whether it is a dict, set or list of frozen values."""
    if type(value) is dict:
        return all(map(_is_frozen, value)) and all(map(_is_frozen, value.values()))
    return type(value) in (set, list) and all(map(_is_frozen, value))
