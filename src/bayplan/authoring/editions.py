"""Editions keep the modules of one load of the policies apart from those of every other load.

A policy may import the files beside it, while it is loaded or later inside a hook. Both must find the files
of its own load: after a reload the old policies still serve while the new ones are tried. So each load, an
*edition*, has a package of its own for each folder (a *shelf*), and its modules have an ``__import__`` of
their own, which looks there first.
"""

import builtins
import contextlib
import importlib
import importlib.util
import itertools
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

PREFIX = "bayplan_policy_"
_numbers = itertools.count(1)


class Edition:
    """The policy files of one load, and the files beside them that those import."""

    def __init__(self) -> None:
        self._shelves: dict[str, Shelf] = {}

    def shelf(self, folder: Path, *, named: Path) -> "Shelf":
        """The shelf of a folder; ``named`` is the folder's path as the user wrote it."""
        shelf = self._shelves.get(str(folder))
        if shelf is None:
            shelf = self._shelves[str(folder)] = Shelf(self, folder, named)
        return shelf

    def files(self) -> list[Path]:
        """The imported files, with paths as the user wrote them."""
        return sorted({file for shelf in self._shelves.values() for file in shelf.files()})

    def forget(self) -> None:
        """Remove the modules, which are no longer called. The default edition stays."""
        if self is _default:
            return
        for shelf in self._shelves.values():
            shelf.take_down(shelf.modules())
        self._shelves.clear()


class Shelf:
    """One folder of an edition, as a package with a unique name."""

    def __init__(self, edition: Edition, folder: Path, named: Path) -> None:
        self.edition = edition
        self.package = f"{PREFIX}{next(_numbers)}"
        self._folder = folder
        self._named = named
        self._module = ModuleType(self.package, "The files of one folder, as they were at one load.")
        self._module.__path__ = [str(folder)]
        self._loaded: dict[Path, ModuleType] = {}
        self._builtins = {**vars(builtins), "__import__": self._import}

    def take_down(self, names: Sequence[str]) -> None:
        """Remove these modules, so that no import finds them."""
        for name in names:
            sys.modules.pop(name, None)
        if self.package in names:
            _shelves.pop(self.package, None)

    def modules(self) -> list[str]:
        """The names of the imported modules, with the package itself."""
        return [name for name in list(sys.modules) if name.partition(".")[0] == self.package]

    def files(self) -> Iterator[Path]:
        """The files of the imported modules, with paths as the user wrote them."""
        for name in self.modules():
            file = getattr(sys.modules.get(name), "__file__", None)
            if file and Path(file).is_relative_to(self._folder):
                yield self._named / Path(file).relative_to(self._folder)

    def load(self, name: str, file: Path) -> ModuleType:
        """Import a file of the folder, once per edition, however many policies use it.

        The default edition never ends, and files change: there each call makes a new module.
        """
        known = self._loaded.get(file)
        if known is not None and self.edition is not _default:
            return known
        _shelves[self.package] = self
        sys.modules[self.package] = self._module
        # With a hyphen, so that no `import` statement can name it.
        full = f"{self.package}.{name.replace('.', '_')}-{next(_numbers)}"
        loader = _Fresh(full, str(file))
        spec = importlib.util.spec_from_file_location(full, file, loader=loader)
        assert spec is not None, "a loader was given"
        module = sys.modules[full] = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
        self._loaded[file] = module
        return module

    def furnish(self, module: ModuleType) -> None:
        """Make the module, and every function in it, import from this shelf first."""
        vars(module)["__builtins__"] = self._builtins

    def plain(self, text: str) -> str:
        """A text without the package's name, which the author of the policy does not know."""
        return text.replace(f"{self.package}.", "")

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """``__import__`` for the modules of this shelf."""
        top = name.partition(".")[0]
        if level or not self._has(top):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        # Without a fromlist, `__import__` would return the top package, which is ours.
        full = f"{self.package}.{name}"
        last = builtins.__import__(full, globals, locals, fromlist or ("__name__",), 0)
        return last if fromlist else sys.modules[f"{self.package}.{top}"]

    def _has(self, top: str) -> bool:
        """Whether the name means a file of this folder; a module found elsewhere takes precedence."""
        if f"{self.package}.{top}" in sys.modules:
            return True
        if top in sys.modules:
            return False
        here = PathFinder.find_spec(top, [str(self._folder)])
        if here is None:
            return False
        elsewhere = importlib.util.find_spec(top)
        return elsewhere is None or _place(elsewhere) == _place(here)


class _Fresh(SourceFileLoader):
    """Compiles the file anew: cached bytecode may be outdated by up to a second, its timestamps' resolution.

    Nor does it write bytecode beside the file, which is often in a read-only ConfigMap.
    """

    def get_code(self, fullname: str) -> CodeType:
        """The code of the file."""
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code

    def exec_module(self, module: ModuleType) -> None:
        """Run the file, with imports that find the files beside it."""
        _shelves[module.__name__.partition(".")[0]].furnish(module)
        super().exec_module(module)


class _Finder(MetaPathFinder):
    """Finds the modules of shelves in their folders."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module of a shelf; ``None`` for all other modules."""
        if path is None or fullname.partition(".")[0] not in _shelves:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader) and spec.origin:
            found = importlib.util.spec_from_file_location(
                fullname,
                spec.origin,
                loader=_Fresh(fullname, spec.origin),
                submodule_search_locations=spec.submodule_search_locations,
            )
            assert found is not None, "a loader was given"
            return found
        return spec


def edition_of(module_name: str) -> Edition | None:
    """The edition of the module of that name; ``None`` if it is no policy's module."""
    shelf = _shelves.get(module_name.partition(".")[0])
    return shelf.edition if shelf is not None else None


def current_edition() -> Edition:
    """The edition that files are imported into now."""
    return _current.get()


@contextlib.contextmanager
def anew() -> Iterator[Edition]:
    """Import policies, and the files beside them, into a new edition; after an error it is removed.

    Applies to this thread only.
    """
    edition = Edition()
    before = _current.set(edition)
    importlib.invalidate_caches()
    try:
        yield edition
    except BaseException:
        edition.forget()
        raise
    finally:
        _current.reset(before)


@contextlib.contextmanager
def one_edition() -> Iterator[Edition]:
    """Import policies into the current edition, or into a new one if there is none."""
    if _current.get() is not _default:
        yield _current.get()
        return
    with anew() as edition:
        yield edition


def _place(spec: ModuleSpec) -> list[str]:
    """The real path of a module's file, or of its folders if it has no file."""
    places = [spec.origin] if spec.has_location and spec.origin else spec.submodule_search_locations or []
    return sorted(os.path.realpath(place) for place in places)


_shelves: dict[str, Shelf] = {}
_default = Edition()
_current: ContextVar[Edition] = ContextVar("bayplan_edition", default=_default)
sys.meta_path.insert(0, _Finder())
