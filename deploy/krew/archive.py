"""The archive of the kubectl plugin, and the krew manifest with its hash: ``make kubectl-plugin``.

The same files make the same archive, byte for byte, so that the manifest in the project can be checked.
"""

import gzip
import hashlib
import io
import sys
import tarfile
from pathlib import Path
from typing import Any

from bayplan import __version__
from bayplan.install.evaluate import to_yaml

HERE = Path(__file__).parent
LAUNCHER = HERE / "kubectl-bayplan"
MANIFEST = HERE / "bayplan.yaml"
LICENSE = HERE.parents[1] / "LICENSE"
ARCHIVE_NAME = f"kubectl-bayplan-{__version__}.tar.gz"
# A name that leads nowhere, by its standard: where the archive will be is up to who publishes it.
NOWHERE = f"https://example.invalid/v{__version__}/{ARCHIVE_NAME}"
_MADE = "# Made by `make kubectl-plugin` from deploy/krew/archive.py: edit there.\n"


def archive() -> bytes:
    """The launcher and the licence, as tar.gz."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path, mode in ((LAUNCHER, 0o755), (LICENSE, 0o644)):
            content = path.read_bytes()
            entry = tarfile.TarInfo(path.name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    # Level 0: what compressors make of the same bytes differs between their versions.
    return gzip.compress(packed.getvalue(), compresslevel=0, mtime=0)


def manifest(uri: str, content: bytes) -> dict[str, Any]:
    """What krew needs to know; one launcher serves all platforms."""
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "bayplan"},
        "spec": {
            "version": f"v{__version__}",
            "shortDescription": "Scheduling policy in Python, and why pods wait",
            "description": (
                "Asks Bayplan why a pod is where it is, or is nowhere; checks policies; renders\n"
                "installations; examines kube-scheduler's configuration. See `kubectl bayplan --help`.\n"
            ),
            "caveats": (
                "This is a launcher: it runs the program `bayplan`, a Python package, from your PATH.\n"
                "Install it first: `pip install .` in its sources, or by name from an index that has it.\n"
            ),
            "platforms": [
                {
                    "selector": {
                        "matchExpressions": [
                            {"key": "os", "operator": "In", "values": ["darwin", "linux"]},
                            {"key": "arch", "operator": "In", "values": ["amd64", "arm64"]},
                        ]
                    },
                    "uri": uri,
                    "sha256": hashlib.sha256(content).hexdigest(),
                    "files": [{"from": LAUNCHER.name, "to": "."}, {"from": LICENSE.name, "to": "."}],
                    "bin": LAUNCHER.name,
                }
            ],
        },
    }


def manifest_text(uri: str, content: bytes) -> str:
    """The manifest as the file in the project has it."""
    return _MADE + to_yaml(manifest(uri, content))


def main() -> None:
    """Write archive and manifest: ``archive.py FOLDER [URI]``; without a URI, also the project's manifest."""
    folder, *uri = sys.argv[1:]
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    content = archive()
    (out / ARCHIVE_NAME).write_bytes(content)
    target = out / MANIFEST.name if uri else MANIFEST
    target.write_text(manifest_text(uri[0] if uri else NOWHERE, content))
    sys.stdout.write(f"{out / ARCHIVE_NAME}\n{target}\n")


if __name__ == "__main__":
    main()
