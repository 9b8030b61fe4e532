"""Imports a policy's file or module; errors name the file and line."""

import importlib
import traceback
from pathlib import Path
from types import ModuleType

from bayplan.authoring.editions import current_edition
from bayplan.authoring.hooks import PolicyError
from bayplan.authoring.installed import known_names
from bayplan.authoring.raised import option_meant, safe_text
from bayplan.kube.unread import file_meant
from bayplan.kube.yaml import did_you_mean

_WANTED = (
    "; want a built-in, a name that an installed package offers, a file (policy.py), a file and a name"
    " (policy.py:Name) or an importable module (package.module:Class)"
)
# Some libraries say in many lines why they cannot be imported.
_LONGEST = 2000


def import_module(name: str, path: Path) -> ModuleType:
    """The module of that name; ``path`` is where a file or directory of that name would be."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and not f"{name}.".startswith(f"{error.name}."):
            raise PolicyError(f"{name}: it imports {error.name!r}, which is not installed") from error
        _refuse_directory(path)
        if path.is_file():
            raise PolicyError(f"{path} is no policy: want a Python file, one that ends in .py") from error
        file = path.with_name(f"{path.name}.py")
        meant = f"; did you mean '{name}.py'?" if file.is_file() else did_you_mean(name, known_names())
        raise PolicyError(f"no policy {name!r}{meant or _WANTED}") from error
    except (Exception, SystemExit) as error:
        raise PolicyError(f"{name}: {type(error).__name__}: {safe_text(error, limit=_LONGEST)}") from error


def _refuse_directory(path: Path) -> None:
    if path.is_dir():
        found = sorted(path.glob("*.py"))
        likely = next((file for file in found if file.name == "policy.py"), Path("policy.py"))
        raise PolicyError(f"{path} is a directory; give a file, such as {likely}")


def import_file(path: Path) -> ModuleType:
    """Import the file as a module of the current edition."""
    _refuse_directory(path)
    if not path.is_file():
        hint = file_meant(path) or "; `bayplan init` writes a first policy"
        raise PolicyError(f"{path}: no such file{hint}")
    target = path.resolve()
    shelf = current_edition().shelf(target.parent, named=path.parent)
    before = shelf.modules()
    try:
        return shelf.load(path.stem, target)
    except BaseException as error:
        shelf.take_down([name for name in shelf.modules() if name not in before])
        if isinstance(error, SyntaxError):
            # For bytes that are no text, Python names neither file nor line.
            file = path if error.filename in (str(target), None) else error.filename
            line = f":{error.lineno}" if error.lineno is not None else ""
            raise PolicyError(f"{file}{line}: {error.msg}") from error
        if isinstance(error, Exception | SystemExit) and not isinstance(error, PolicyError):
            meant = _import_meant(error) or option_meant(error)
            text = f"{type(error).__name__}: {safe_text(error, limit=_LONGEST)}{meant}"
            raise PolicyError(f"{_line_in(path, error)}: {shelf.plain(text)}") from error
        raise


def _import_meant(error: BaseException) -> str:
    """What to add to a file that uses ``bayplan`` without importing it."""
    missing = isinstance(error, NameError) and error.name == "bayplan"
    return "; add the line `import bayplan`" if missing else ""


def _line_in(path: Path, error: BaseException) -> str:
    """The innermost line of that file in the error's traceback."""
    wanted = str(path.resolve())
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == wanted]
    return f"{path}:{lines[-1]}" if lines else str(path)
