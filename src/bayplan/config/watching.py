"""Which files a configuration came from, and whether one of them has changed.

A ConfigMap is swapped by a symbolic link, an editor writes a new file in its place: what is looked at is
what the path leads to now.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from bayplan.config.flags import Flags, Loaded

Fingerprint = tuple[tuple[str, tuple[int, int, int] | None], ...]

_KINDS = (".py", ".yaml", ".yml")
# A policy may lie in a home folder, with all that somebody has: a look must take no more than a moment.
_MOST_BESIDE = 500


class WatchedFiles:
    """The configuration, the files that it names, and what policies import from beside them."""

    def __init__(self, files: Sequence[str], flags: Flags, loaded: Loaded) -> None:
        named = [Path(use.partition(":")[0]) for use in files]
        if flags.config is not None:
            uses = [entry.use for entry in loaded.config.policies if entry.use]
            named = [flags.config, *(loaded.base / use.partition(":")[0] for use in uses)]
        profiles = [entry.kube_scheduler_config for entry in loaded.config.scheduler.profiles]
        named += [loaded.base / profile for profile in profiles if profile]
        self.paths = sorted({path for path in named if path.is_file()} | set(loaded.edition.files()))
        self._folders = sorted({path.parent for path in [*named, *self.paths]})

    def fingerprint(self, *, widely: bool = False) -> Fingerprint:
        """Another one when a file is another one, or gone; ``widely``: or one beside them is, or is new.

        What is missing for a change may come later, as a file that nobody has named so far.
        """
        found = set(self.paths)
        if widely:
            found.update(path for folder in self._folders for path in _beside(folder))
        return tuple((str(path), _look(path)) for path in sorted(found))


def _beside(folder: Path) -> Iterator[Path]:
    """The files in a folder, and below it, that a configuration can be made of; not without end."""
    left = _MOST_BESIDE
    # Folders in a ConfigMap are links; a circle of them ends with the rest.
    for place, below, names in os.walk(folder, followlinks=True):
        # Nobody imports from those; a ConfigMap keeps its states in such ones.
        below[:] = sorted(name for name in below if not name.startswith((".", "__pycache__")))
        kept = sorted(name for name in names if name.endswith(_KINDS))[:left]
        yield from (Path(place, name) for name in kept)
        left -= 1 + len(names)
        if left <= 0:
            return


def _look(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
