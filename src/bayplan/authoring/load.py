"""Finding policies: in a file, a module or a class, and making them ready to run.

The loose hooks of one file are one policy, named after the file; a class marked ``@bayplan.policy``
is a policy of its own. ``file.py:name`` takes just one of them.
"""

import importlib
import importlib.util
import inspect
import itertools
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from bayplan.authoring.args import Args, read_args
from bayplan.authoring.hooks import HOOK, POLICY, HookSpec, PolicyError, class_hooks, where
from bayplan.authoring.registry import FailurePolicy, Hook, Policy
from bayplan.authoring.scope import EVERY_POD, Scope
from bayplan.kube.yaml import suggest
from bayplan.snapshot.columns import Label, NodeAnnotation
from bayplan.snapshot.units import Units

_loads = itertools.count(1)


@dataclass(frozen=True)
class Definition:
    """A policy as it was found, before it has arguments."""

    name: str
    functions: tuple[tuple[str, Callable[..., Any]], ...]
    cls: type | None
    columns: tuple[Any, ...]

    @property
    def schema(self) -> type[Args] | None:
        """The class of its arguments, or ``None`` where it takes none."""
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
        """The policy with these arguments; raises `msgspec.ValidationError` where they do not fit."""
        title = name or self.name
        settings = self._settings(args)
        columns = self.columns
        if self.cls is None:
            pairs = [(n, function, _spec(function)) for n, function in self.functions]
        else:
            instance = self._instance(settings)
            columns += _columns_in(vars(self.cls)) + _columns_in(getattr(instance, "__dict__", {}))
            specs = class_hooks(self.cls)
            pairs = [(n, getattr(instance, n), spec) for n, spec in specs.items()]
        hooks = tuple(Hook(title, n, spec, function, settings) for n, function, spec in pairs)
        return Policy(title, hooks, weight, scope, failure_policy, columns)

    def _takers(self) -> list[Callable[..., Any]]:
        """The functions that may ask for ``args``: every hook, and ``__init__`` of a class."""
        if self.cls is None:
            return [function for _, function in self.functions]
        methods = [getattr(self.cls, name) for name in ("__init__", *class_hooks(self.cls))]
        return [method for method in methods if inspect.isfunction(method)]

    def _settings(self, args: dict[str, Any] | None) -> Args | None:
        schema = self.schema
        if schema is not None:
            return read_args(schema, args or {})
        if args:
            raise PolicyError(f"{self.name} takes no args, but args are given: {', '.join(args)}")
        return None

    def _instance(self, settings: Args | None) -> Any:
        assert self.cls is not None
        wanted = [name for name in inspect.signature(self.cls).parameters if name != "self"]
        if wanted not in ([], ["args"]):
            raise PolicyError(f"{where(self.cls)} {self.name}: __init__ may take `args` and nothing else")
        try:
            return self.cls(settings) if wanted else self.cls()
        except Exception as error:
            raise PolicyError(f"{where(self.cls)} {self.name}: {type(error).__name__}: {error}") from error


def load(use: str, *, base: Path | None = None) -> list[Definition]:
    """What ``use`` names: a built-in, ``file.py``, ``file.py:name``, ``module`` or ``module:Class``.

    A relative file is looked for in ``base``, the folder of the configuration.
    """
    target, _, member = use.partition(":")
    if not member and target in built_ins():
        target, member = built_ins()[target], target
    path = (base or Path()) / target
    if target.endswith((".yaml", ".yml")):
        # In a configuration there is no flag to be meant.
        hint = "want a Python file" if base else f"did you mean --config {target}?"
        raise PolicyError(f"{target} is not a policy; {hint}")
    if target.endswith(".py") or "/" in target or target.startswith("."):
        module = _import_file(path)
    else:
        module = _import_module(target, path)
    found = definitions(module)
    if not member:
        return found
    return [_member(module, member, use)]


def built_ins() -> dict[str, str]:
    """Module of each policy that comes with Bayplan, by name."""
    # Looked up by name: the built-ins use what authors use, and so stand above this room.
    names: dict[str, str] = importlib.import_module("bayplan.policies").BUILT_INS
    return names


def definitions(module: ModuleType) -> list[Definition]:
    """Every policy that a module defines, in the order it was written."""
    columns = _columns_in(vars(module))
    own = [(n, v) for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__]
    loose = tuple((n, v) for n, v in own if isinstance(getattr(v, HOOK, None), HookSpec))
    classes = [v for _, v in own if isinstance(v, type) and POLICY in vars(v)]
    found = [Definition(_stem(module), loose, None, columns)] if loose else []
    found += [Definition(cls.__name__, (), cls, columns) for cls in classes]
    if not found:
        raise PolicyError(
            f"{_origin(module)}: no policy in it; decorate a function with @bayplan.filter,"
            " @bayplan.score, @bayplan.prefer or @bayplan.protect, or a class with @bayplan.policy"
        )
    return found


def _member(module: ModuleType, member: str, use: str) -> Definition:
    thing = getattr(module, member, None)
    every = definitions(module)
    known = {name for d in every for name, _ in d.functions} | {d.name for d in every if d.cls}
    if member not in known or thing is None:
        raise PolicyError(f"{use}: no policy {member!r} in that file{suggest(member, known)}")
    columns = every[0].columns
    if isinstance(thing, type):
        return Definition(member, (), thing, columns)
    # What the file prepares belongs to each of its hooks.
    loose = next(d.functions for d in every if d.cls is None)
    prepares = tuple((n, f) for n, f in loose if _spec(f).kind == "prepare" and n != member)
    return Definition(member, (*prepares, (member, thing)), None, columns)


def _import_module(name: str, path: Path) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and not f"{name}.".startswith(f"{error.name}."):
            raise PolicyError(f"{name}: it imports {error.name!r}, which is not installed") from error
        _refuse_directory(path)
        raise PolicyError(
            f"no policy {name!r}{suggest(name, built_ins())}; want a built-in, a file (policy.py),"
            " a file and a name (policy.py:Name) or an importable module (package.module:Class)"
        ) from error
    except (Exception, SystemExit) as error:
        raise PolicyError(f"{name}: {type(error).__name__}: {error}") from error


class _Fresh(SourceFileLoader):
    """Compiles the file as it is now: cached bytecode can be as old as a second and not tell.

    Nothing is written beside the file either, which is often a read-only ConfigMap.
    """

    def get_code(self, fullname: str) -> CodeType:
        """The code of the file."""
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


def _refuse_directory(path: Path) -> None:
    if path.is_dir():
        found = sorted(path.glob("*.py"))
        likely = next((file for file in found if file.name == "policy.py"), Path("policy.py"))
        raise PolicyError(f"{path} is a directory; give a file, such as {likely}")


def _import_file(path: Path) -> ModuleType:
    _refuse_directory(path)
    if not path.is_file():
        raise PolicyError(f"{path}: no such file; `bayplan init` writes a first policy")
    # A name of its own each time: a file loaded again must not meet its older self.
    name = f"bayplan_policy_{path.stem.replace('-', '_')}_{next(_loads)}"
    target = path.resolve()
    loader = _Fresh(name, str(target))
    spec = importlib.util.spec_from_file_location(name, target, loader=loader)
    if spec is None:
        raise PolicyError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    # Policies may import the files beside them; last in the path, so that they shadow nothing.
    folder = str(target.parent)
    if folder not in sys.path:
        sys.path.append(folder)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except PolicyError:
        sys.modules.pop(name, None)
        raise
    except SyntaxError as error:
        sys.modules.pop(name, None)
        raise PolicyError(f"{path}:{error.lineno}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        raise PolicyError(f"{_line_in(path, error)}: {type(error).__name__}: {error}") from error
    return module


def _line_in(path: Path, error: BaseException) -> str:
    """The innermost line of that file in the error's traceback."""
    wanted = str(path.resolve())
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == wanted]
    return f"{path}:{lines[-1]}" if lines else str(path)


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
    """The typed columns that a module, a class or an object has names for."""
    return tuple(value for value in names.values() if isinstance(value, Label | NodeAnnotation | Units))


def _spec(function: Callable[..., Any]) -> HookSpec:
    spec: HookSpec = getattr(function, HOOK)
    return spec


def _origin(module: ModuleType) -> str:
    return getattr(module, "__file__", None) or module.__name__


def _stem(module: ModuleType) -> str:
    return Path(_origin(module)).stem
