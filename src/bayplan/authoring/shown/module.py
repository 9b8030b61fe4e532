"""The source of a policy's module, parsed and compiled once for all its hooks."""

import ast
from functools import cached_property
from types import CodeType, ModuleType

from bayplan.authoring.shown.constants import Constants
from bayplan.authoring.shown.words import Kind, Unproven

Asked = tuple[CodeType, tuple[tuple[str, Kind], ...]]
"""A function, and the kinds of its arguments."""


class FileSource:
    """The source file of a module."""

    def __init__(self, tree: ast.Module, module: ModuleType) -> None:
        self.known: dict[Asked, set[Kind] | None] = {}
        """What functions return, as inferred so far; ``None`` if unproven."""
        self._tree = tree
        self._module = module

    @cached_property
    def constants(self) -> Constants:
        """The names of the module that never change."""
        return Constants(self._tree, vars(self._module))

    def definition(self, code: CodeType) -> ast.FunctionDef:
        """The definition of a function; raises `Unproven` if the file no longer has the code that runs."""
        # The file may have changed since the module was loaded.
        if code not in self._codes:
            raise Unproven
        for one in self._tree.body:
            if isinstance(one, ast.FunctionDef) and one.name == code.co_name:
                line = min([one.lineno, *(decorator.lineno for decorator in one.decorator_list)])
                if line == code.co_firstlineno:
                    return one
        raise Unproven

    @cached_property
    def _codes(self) -> frozenset[CodeType]:
        made = compile(self._tree, self._module.__file__ or "", "exec", dont_inherit=True)
        return frozenset(one for one in made.co_consts if isinstance(one, CodeType))
