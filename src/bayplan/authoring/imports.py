"""Importing a policy's file or module, so that whatever goes wrong says where."""

import contextlib
import importlib
import importlib.util
import itertools
import sys
import traceback
from collections.abc import Iterable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from bayplan.authoring.hooks import PolicyError
from bayplan.authoring.installed import known_names
from bayplan.kube.yaml import suggest

_loads = itertools.count(1)
_PREFIX = "bayplan_policy_"
# Folders that policy files were loaded from: what they led to at that time, and how they were named.
_folders: dict[str, Path] = {}
# Modules that are ours to import again: policy files, and the files beside them that they import.
_companions: set[str] = set()


def import_module(name: str, path: Path) -> ModuleType:
    """The module of that name; ``path`` is where a file or directory of that name would be."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and not f"{name}.".startswith(f"{error.name}."):
            raise PolicyError(f"{name}: it imports {error.name!r}, which is not installed") from error
        _refuse_directory(path)
        raise PolicyError(
            f"no policy {name!r}{suggest(name, known_names())}; want a built-in, a name that an installed"
            " package offers, a file (policy.py), a file and a name (policy.py:Name) or an importable"
            " module (package.module:Class)"
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


def import_file(path: Path) -> ModuleType:
    """The file as a module of its own, however often it was imported before."""
    _refuse_directory(path)
    if not path.is_file():
        raise PolicyError(f"{path}: no such file; `bayplan init` writes a first policy")
    # A name of its own each time: a file loaded again must not meet its older self.
    name = f"{_PREFIX}{path.stem.replace('-', '_')}_{next(_loads)}"
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
    _folders[folder] = path.parent
    before = set(sys.modules)
    sys.modules[name] = module
    try:
        with _no_bytecode():
            loader.exec_module(module)
        _companions.update(n for n in set(sys.modules) - before if _is_beside(sys.modules[n], folder))
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


def loaded_files() -> list[Path]:
    """The files that policies were loaded from, and what those import from beside them, as they are named."""
    found = []
    for module in _ours().values():
        file = Path(module.__file__ or "")
        for folder, named in _folders.items():
            if file.is_relative_to(folder):
                found.append(named / file.relative_to(folder))
    return found


@contextlib.contextmanager
def anew() -> Iterator[None]:
    """Import policies, and the files beside them, as they are now; what was there comes back on an error."""
    modules, folders, path = _ours(), dict(_folders), list(sys.path)
    _forget(modules)
    sys.path[:] = [entry for entry in sys.path if entry not in folders]
    importlib.invalidate_caches()
    try:
        yield
    except BaseException:
        _forget(_ours())
        sys.modules.update(modules)
        _companions.update(modules)
        _folders.update(folders)
        sys.path[:] = path
        raise


def _ours() -> dict[str, ModuleType]:
    return {name: sys.modules[name] for name in _companions if name in sys.modules}


def _forget(modules: Iterable[str]) -> None:
    for name in list(modules):
        sys.modules.pop(name, None)
    _companions.clear()
    _folders.clear()


def _is_beside(module: ModuleType, folder: str) -> bool:
    """Whether it is a file of the policy's own folder, and no package that is installed in there."""
    file = Path(getattr(module, "__file__", None) or "/")
    return file.is_relative_to(folder) and "site-packages" not in file.relative_to(folder).parts


@contextlib.contextmanager
def _no_bytecode() -> Iterator[None]:
    """Write none for the files beside a policy: it can be as old as a second and not tell."""
    before = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


def _line_in(path: Path, error: BaseException) -> str:
    """The innermost line of that file in the error's traceback."""
    wanted = str(path.resolve())
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == wanted]
    return f"{path}:{lines[-1]}" if lines else str(path)
