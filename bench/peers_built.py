"""The extenders in Go that benchmarks compare with, built once for each state of their sources.

python -m bench.peers_built
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

PEERS = Path(__file__).parent / "peers"
GO_PEERS = ("one", "ten")
"""By the number of their rules."""
_GO = PEERS / "go-extender"


class PeerMissing(RuntimeError):
    """A peer cannot be had here; the text says why in a line."""


def find_go(peer: str = GO_PEERS[0]) -> Path:
    """An extender in Go, built once for each state of its sources; `PeerMissing` where that cannot be."""
    directory = cache_directory()
    binary = directory / f"go-extender-{peer}-{digest_of(sorted(filter(Path.is_file, _GO.rglob('*'))))}"
    if binary.exists():
        return binary
    go = shutil.which("go")
    if go is None:
        raise PeerMissing("no extender in Go to compare with, and no Go to build it: install Go 1.26")
    print(f"building the extender in Go, rules: {peer} (once)", file=sys.stderr, flush=True)
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=directory) as folder:
        # Moved when it is whole: another run must never find half of it.
        made = Path(folder) / peer
        argv: list[str | Path] = [go, "build", "-trimpath", "-o", made, f"./{peer}"]
        done = subprocess.run(argv, cwd=_GO, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            raise PeerMissing(f"the extender in Go cannot be built: {' '.join(done.stderr.split())[-300:]}")
        made.replace(binary)
    return binary


def cache_directory() -> Path:
    """Where peers are kept."""
    cache = Path(os.environ.get("BAYPLAN_CACHE") or os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return cache.expanduser() / "bayplan" / "bench"


def digest_of(files: Sequence[Path]) -> str:
    """A name for the state of these files."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def main() -> None:
    """Build what is not there yet, or say why not."""
    try:
        for peer in GO_PEERS:
            find_go(peer)
    except PeerMissing as missing:
        raise SystemExit(f"!!! {missing}") from missing


if __name__ == "__main__":
    main()
