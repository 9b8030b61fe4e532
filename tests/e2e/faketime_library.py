"""``libfaketime`` gives one program another wall clock: in the cache, or out of Debian's package.

The package is unpacked and not installed: that needs no root.

``python -m tests.e2e.faketime_library`` fetches it if need be and prints where it is.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

PACKAGE = "libfaketime"
_SECONDS = 120
_NAME = "libfaketime.so.1"


class FaketimeMissing(RuntimeError):
    """There is no libfaketime and no way to get it here; the message is one sentence."""


class WallClock:
    """The wall clock of the programs that are started with `env`; their monotonic one is not touched."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self._file = directory / "wall-clock"
        self.step(0)
        self.env = {
            "LD_PRELOAD": str(require()),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            # Read again each second: at every look at the clock it would take all the time there is.
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }

    def step(self, minutes: int) -> None:
        """So far is it from now on from what everybody else has."""
        # Renamed into place: half a file would be half a time.
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{minutes:+d}m\n")
        fresh.rename(self._file)


def find_or_unpack(env: Mapping[str, str] = os.environ) -> Path:
    """The library."""
    cache = env.get("BAYPLAN_CACHE") or env.get("XDG_CACHE_HOME") or "~/.cache"
    library = Path(cache).expanduser() / "bayplan" / PACKAGE / _NAME
    if not library.exists():
        _unpack(library)
    return library


def require() -> Path:
    """The library, for a test: skipped where there is none, and failed in CI, where nobody sees a skip."""
    try:
        return find_or_unpack()
    except FaketimeMissing as error:
        if os.environ.get("CI", "") not in ("", "0", "false"):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


def _unpack(library: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise FaketimeMissing(f"NO CLOCK TESTS: no Debian here to take the package {PACKAGE} from")
    print(f"fetching Debian's package {PACKAGE} into {library.parent} (once)", file=sys.stderr, flush=True)
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=library.parent) as temporary:
        folder = Path(temporary)
        fetched = _run("apt-get", "download", PACKAGE, folder=folder)
        if fetched.returncode and os.geteuid() == 0:
            # A fresh image has no lists of packages yet.
            _run("apt-get", "update", folder=folder)
            fetched = _run("apt-get", "download", PACKAGE, folder=folder)
        packages = list(folder.glob("*.deb"))
        if fetched.returncode or not packages:
            said = " ".join(fetched.stderr.split())
            raise FaketimeMissing(f"NO CLOCK TESTS: `apt-get download {PACKAGE}` failed ({said})")
        _run("dpkg-deb", "-x", str(packages[0]), "unpacked", folder=folder).check_returncode()
        (found,) = folder.glob(f"unpacked/usr/lib/*/faketime/{_NAME}")
        # Moved at the end: another run must never see half of it.
        found.rename(library)


def _run(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False)


def main() -> None:
    """Print where it is, after fetching it."""
    try:
        print(find_or_unpack())
    except FaketimeMissing as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
