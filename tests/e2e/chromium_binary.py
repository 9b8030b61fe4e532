"""The program ``chromium``: on the PATH, or out of Debian's package, installed where that is allowed.

``python -m tests.e2e.chromium_binary`` installs it if need be and prints where it is.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = "chromium"
_SECONDS = 600


class ChromiumMissing(RuntimeError):
    """There is no Chromium and no way to get it here; the message is one sentence."""


def find() -> Path:
    """The program, where it is installed."""
    found = shutil.which(PACKAGE) or shutil.which("chromium-browser")
    if not found:
        raise ChromiumMissing(f"NO BROWSER TESTS: no Chromium here; install Debian's package {PACKAGE}")
    return Path(found)


def find_or_install() -> Path:
    """The program, after installing it where we may."""
    try:
        return find()
    except ChromiumMissing:
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            raise
    print(f"installing Debian's package {PACKAGE} (once)", file=sys.stderr, flush=True)
    ended = _install()
    if ended.returncode:
        # A fresh image has no lists of packages yet.
        subprocess.run(["apt-get", "update"], capture_output=True, timeout=_SECONDS, check=False)
        ended = _install()
    if ended.returncode:
        said = " ".join(ended.stderr.split())[-300:]
        raise ChromiumMissing(f"NO BROWSER TESTS: `apt-get install {PACKAGE}` failed ({said})")
    return find()


def require() -> Path:
    """The program, for a test: skipped where there is none, and failed in CI, where nobody sees a skip."""
    try:
        return find()
    except ChromiumMissing as error:
        if os.environ.get("CI", "") not in ("", "0", "false"):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


def _install() -> subprocess.CompletedProcess[str]:
    command = ["apt-get", "install", "-y", "--no-install-recommends", PACKAGE]
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False, env=env)


def main() -> None:
    """Print where it is, after installing it."""
    try:
        print(find_or_install())
    except ChromiumMissing as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
