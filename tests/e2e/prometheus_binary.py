"""The programs ``prometheus`` and ``promtool``: on the PATH, in the cache, or out of Debian's package.

The package is unpacked and not installed: that needs no root, and starts no service.

``python -m tests.e2e.prometheus_binary`` fetches them if need be and prints where they are.
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

PACKAGE = "prometheus"
PROGRAMS = ("prometheus", "promtool")
_SECONDS = 300


class PrometheusMissing(RuntimeError):
    """There is no Prometheus and no way to get it here; the message is one sentence."""


def find_or_unpack(program: str = "prometheus", env: Mapping[str, str] = os.environ) -> Path:
    """The program."""
    if found := shutil.which(program, path=env.get("PATH")):
        return Path(found)
    cache = env.get("BAYPLAN_CACHE") or env.get("XDG_CACHE_HOME") or "~/.cache"
    binary = Path(cache).expanduser() / "bayplan" / PACKAGE / program
    if not os.access(binary, os.X_OK):
        _unpack(binary.parent)
    return binary


def require(program: str = "prometheus") -> Path:
    """The program, for a test: skipped where there is none, and failed in CI, where nobody sees a skip."""
    try:
        return find_or_unpack(program)
    except PrometheusMissing as error:
        if os.environ.get("CI", "") not in ("", "0", "false"):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


def _unpack(cache: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise PrometheusMissing(
            "no Prometheus on the PATH, and no Debian to take its package from: install it"
        )
    print(f"fetching Debian's package {PACKAGE} into {cache} (once)", file=sys.stderr, flush=True)
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=cache) as temporary:
        folder = Path(temporary)
        fetched = _run("apt-get", "download", PACKAGE, folder=folder)
        if fetched.returncode and os.geteuid() == 0:
            # A fresh image has no lists of packages yet.
            _run("apt-get", "update", folder=folder)
            fetched = _run("apt-get", "download", PACKAGE, folder=folder)
        packages = list(folder.glob("*.deb"))
        if fetched.returncode or not packages:
            said = " ".join(fetched.stderr.split())
            raise PrometheusMissing(
                f"no Prometheus, and `apt-get download {PACKAGE}` failed ({said}): install the package"
            )
        _run("dpkg-deb", "-x", str(packages[0]), "unpacked", folder=folder).check_returncode()
        # Moved at the end: another run must never see half of it.
        for program in PROGRAMS:
            (folder / "unpacked" / "usr" / "bin" / program).rename(cache / program)


def _run(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False)


def main() -> None:
    """Print where they are, after fetching them."""
    try:
        for program in PROGRAMS:
            print(find_or_unpack(program))
    except PrometheusMissing as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
