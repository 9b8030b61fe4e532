"""Which files a configuration came from, and whether one of them has changed.

A ConfigMap is swapped by a symbolic link, an editor writes a new file in its place: what is looked at is
what the path leads to now.
"""

from collections.abc import Sequence
from pathlib import Path

from bayplan.config.flags import Flags, Loaded

Fingerprint = tuple[tuple[str, tuple[int, int, int] | None], ...]


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

    def fingerprint(self) -> Fingerprint:
        """Another one when a file is another one, or gone."""
        return tuple((str(path), _look(path)) for path in self.paths)


def _look(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
