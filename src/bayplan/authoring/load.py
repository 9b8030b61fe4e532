"""Finds policies in a file, a module or a class, and makes them ready to run.

The hooks of a file outside of classes are one policy, named after the file; a class marked
``@bayplan.policy`` is a policy of its own. ``file.py:name`` takes just one of them.
"""

import ast
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from bayplan.authoring.args import Args, read_args
from bayplan.authoring.hooks import HOOK, POLICY, HookSpec, PolicyError, class_hooks, where
from bayplan.authoring.imports import import_file, import_module
from bayplan.authoring.installed import find_named
from bayplan.authoring.raised import safe_text
from bayplan.authoring.registry import FailurePolicy, Hook, Policy
from bayplan.authoring.scope import EVERY_POD, Scope
from bayplan.authoring.shown.module import FileSource
from bayplan.authoring.shown.read_off import read_off
from bayplan.authoring.source import SOURCE, SourceHook, SourceSpec
from bayplan.kube.yaml import suggest
from bayplan.snapshot.columns import Label, NodeAnnotation
from bayplan.snapshot.domains import Together
from bayplan.snapshot.sources import Latch, Source
from bayplan.snapshot.units import Units


@dataclass(frozen=True)
class Definition:
    """A policy as it was found in a module, without arguments."""

    name: str
    functions: tuple[tuple[str, Callable[..., Any]], ...]
    cls: type | None
    columns: tuple[Any, ...]
    sources: tuple[tuple[str, Callable[..., Any]], ...] = ()

    @property
    def schema(self) -> type[Args] | None:
        """The class of its arguments; ``None`` if it takes none."""
        found = {schema for taker in self._takers() if (schema := _args_schema(taker)) is not None}
        if len(found) > 1:
            names = " and ".join(sorted(schema.__name__ for schema in found))
            raise PolicyError(
                f"{self.name}: hooks take different arguments ({names});"
                " give them one class, or name them one by one as file.py:name"
            )
        return found.pop() if found else None

    def make(
        self,
        *,
        name: str | None = None,
        args: dict[str, Any] | None = None,
        weight: float = 1.0,
        scope: Scope = EVERY_POD,
        failure_policy: FailurePolicy = "Fail",
    ) -> Policy:
        """The policy with these arguments; raises `msgspec.ValidationError` if they do not fit."""
        title = name or self.name
        settings = self._settings(args)
        columns = self.columns
        if self.cls is None:
            pairs = [(n, function, _spec(function)) for n, function in self.functions]
        else:
            instance = self._instance(settings)
            columns += _columns_in(vars(self.cls)) + _columns_in(getattr(instance, "__dict__", {}))
            specs = class_hooks(self.cls)
            pairs = [(n, m := getattr(instance, n), read_off(m, spec, None)) for n, spec in specs.items()]
        hooks = tuple(Hook(title, n, spec, function, settings) for n, function, spec in pairs)
        sources = tuple(SourceHook(n, getattr(f, SOURCE), f, settings) for n, f in self.sources)
        return Policy(title, hooks, weight, scope, failure_policy, columns, sources)

    def _takers(self) -> list[Callable[..., Any]]:
        """The functions that may take ``args``: hooks, sources, and ``__init__`` of a class."""
        sources = [function for _, function in self.sources]
        if self.cls is None:
            return [*sources, *(function for _, function in self.functions)]
        methods = [getattr(self.cls, name) for name in ("__init__", *class_hooks(self.cls))]
        return [*sources, *(method for method in methods if inspect.isfunction(method))]

    def _settings(self, args: dict[str, Any] | None) -> Args | None:
        schema = self.schema
        if schema is not None:
            return read_args(schema, args or {})
        if args:
            raise PolicyError(
                f"{self.name} takes no args, but args are given: {', '.join(args)}; a hook, or __init__ of a"
                " class, takes them as its parameter `args`, annotated with a class of bayplan.Args"
            )
        return None

    def _instance(self, settings: Args | None) -> Any:
        assert self.cls is not None
        wanted = [name for name in inspect.signature(self.cls).parameters if name != "self"]
        if wanted not in ([], ["args"]):
            raise PolicyError(f"{where(self.cls)} {self.name}: __init__ may take `args` and nothing else")
        try:
            return self.cls(settings) if wanted else self.cls()
        except Exception as error:
            text = f"{type(error).__name__}: {safe_text(error)}"
            raise PolicyError(f"{where(self.cls)} {self.name}: {text}") from error


def load(use: str, *, base: Path | None = None) -> list[Definition]:
    """The policies of ``use``: a built-in, an entry point, ``file.py``, ``file.py:name`` or ``module:Class``.

    A relative path is relative to ``base``, the folder of the configuration.
    """
    named = None if ":" in use or _is_file(use) else find_named(use)
    if named is None:
        return _load(use, base)
    try:
        return [replace(found, name=use) for found in _load(named, base)]
    except PolicyError as error:
        raise PolicyError(f"{use} is {named}: {error}") from error


def _load(use: str, base: Path | None) -> list[Definition]:
    target, _, member = use.partition(":")
    path = (base or Path()) / target
    if target.endswith((".yaml", ".yml")):
        # Only on the command line can --config have been meant.
        hint = "want a Python file" if base else f"did you mean --config {target}?"
        raise PolicyError(f"{target} is not a policy; {hint}")
    module = import_file(path) if _is_file(target) else import_module(target, path)
    return [_member(module, member, use)] if member else definitions(module)


def _is_file(target: str) -> bool:
    return target.endswith(".py") or "/" in target or target.startswith(".")


def definitions(module: ModuleType) -> list[Definition]:
    """The policies that a module defines, in source order."""
    columns = _columns_in(vars(module))
    own = [(n, v) for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__]
    loose = tuple((n, v) for n, v in own if isinstance(getattr(v, HOOK, None), HookSpec))
    classes = [v for _, v in own if isinstance(v, type) and POLICY in vars(v)]
    tree = _tree(module)
    source = None
    if tree is not None:
        source = FileSource(tree, module)
        _check_lost(tree, Path(_origin(module)).name)
    for name, function in loose:
        if "self" in inspect.signature(function).parameters:
            raise PolicyError(
                f"{where(function)} {name}: a function has no `self`; leave it out, or put the"
                " function into a class with @bayplan.policy"
            )
        setattr(function, HOOK, read_off(function, _spec(function), source))
    _check_marked([v for _, v in own if isinstance(v, type)], classes)
    sources = tuple((n, v) for n, v in own if isinstance(getattr(v, SOURCE, None), SourceSpec))
    found = [Definition(_stem(module), loose, None, columns)] if loose or (sources and not classes) else []
    found += [Definition(cls.__name__, (), cls, columns) for cls in classes]
    if not found:
        raise PolicyError(
            f"{_origin(module)}: no policy in it; decorate a function with @bayplan.filter,"
            " @bayplan.score, @bayplan.prefer, @bayplan.protect or @bayplan.victims,"
            " or a class with @bayplan.policy"
        )
    # A file's sources belong to its first policy, so that they are polled once; all policies may read them.
    return [replace(found[0], sources=sources), *found[1:]]


def _tree(module: ModuleType) -> ast.Module | None:
    """The syntax tree of the module; ``None`` if it has no Python source file."""
    try:
        return ast.parse(Path(_origin(module)).read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None


def _check_lost(tree: ast.Module, file: str) -> None:
    """Raise `PolicyError` for two hooks of one name: Python would silently keep only the second."""
    for body in (tree.body, *(one.body for one in tree.body if isinstance(one, ast.ClassDef))):
        lines: dict[str, int] = {}
        for one in body:
            if not isinstance(one, ast.FunctionDef) or not any(map(_is_hook, one.decorator_list)):
                continue
            if one.name in lines:
                raise PolicyError(
                    f"{file}:{one.lineno} {one.name}: a hook of this name is in line {lines[one.name]},"
                    " and would be lost; give one of them another name"
                )
            lines[one.name] = one.lineno


def _is_hook(decorator: ast.expr) -> bool:
    """Whether a decorator looks like a hook's: ``@bayplan.filter``, ``@bayplan.score(...)``."""
    named = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (
        isinstance(named, ast.Attribute) and isinstance(named.value, ast.Name) and named.value.id == "bayplan"
    )


def _check_marked(classes: list[type], policies: list[type]) -> None:
    """Raise `PolicyError` for a class with hooks that is neither a policy nor the base class of one."""
    for cls in classes:
        if class_hooks(cls) and not any(issubclass(policy, cls) for policy in policies):
            name = next(iter(class_hooks(cls)))
            raise PolicyError(
                f"{where(cls)} {cls.__name__}: it has the hook {name!r} and is no policy;"
                " decorate the class with @bayplan.policy"
            )


def _member(module: ModuleType, member: str, use: str) -> Definition:
    thing = getattr(module, member, None)
    if thing is not None and (hasattr(thing, HOOK) or POLICY in getattr(thing, "__dict__", {})):
        home = sys.modules.get(thing.__module__, module)
        if home is not module:
            # A package's __init__ may re-export what a module inside it defines.
            return _member(home, thing.__name__, use)
    every = definitions(module)
    known = {name for d in every for name, _ in d.functions} | {d.name for d in every if d.cls}
    if member not in known or thing is None:
        raise PolicyError(f"{use}: no policy {member!r} in that file{suggest(member, known)}")
    columns, sources = every[0].columns, every[0].sources
    if isinstance(thing, type):
        return Definition(member, (), thing, columns, sources)
    # The file's ``prepare`` hooks go with each of its other hooks.
    loose = next(d.functions for d in every if d.cls is None)
    prepares = tuple((n, f) for n, f in loose if _spec(f).kind == "prepare" and n != member)
    return Definition(member, (*prepares, (member, thing)), None, columns, sources)


def _args_schema(function: Callable[..., Any]) -> type[Args] | None:
    parameter = inspect.signature(function).parameters.get("args")
    if parameter is None:
        return None
    annotation = parameter.annotation
    if isinstance(annotation, str):
        try:
            annotation = eval(annotation, getattr(function, "__globals__", {}))  # noqa: S307
        except Exception as error:
            raise PolicyError(f"{where(function)}: cannot read the type of args: {error}") from error
    if not (isinstance(annotation, type) and issubclass(annotation, Args)):
        raise PolicyError(
            f"{where(function)} {function.__qualname__}: `args` needs its class,"
            " as in `args: MyArgs` with `class MyArgs(bayplan.Args)`"
        )
    return annotation


def _columns_in(names: Mapping[str, Any]) -> tuple[Any, ...]:
    """The typed columns among the attributes of a module, a class or an instance."""
    kinds = Label | NodeAnnotation | Units | Source | Latch
    values = (value.columns if isinstance(value, Together) else value for value in names.values())
    found = (value if isinstance(value, tuple | list) else (value,) for value in values)
    return tuple(value for several in found for value in several if isinstance(value, kinds))


def _spec(function: Callable[..., Any]) -> HookSpec:
    spec: HookSpec = getattr(function, HOOK)
    return spec


def _origin(module: ModuleType) -> str:
    return getattr(module, "__file__", None) or module.__name__


def _stem(module: ModuleType) -> str:
    return Path(_origin(module)).stem
