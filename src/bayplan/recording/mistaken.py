"""Recognises a snapshot of a cluster that is given in place of a recording or a journal."""

import re
import zlib
from pathlib import Path

_LOOKED_AT = 4096
# The first key of an object of Kubernetes, as kubectl writes it in JSON and in YAML; not of a configuration.
_KEY = rb"[\"']?(?:apiVersion|kind|items|metadata)[\"']?\s*:"
_OBJECT = re.compile(rb"\s*(?:---\s+)?(?:\{\s*)?" + _KEY + rb"(?!\s*[\"']?(?:bayplan\.dev|\w+Configuration))")
_HOW = "try policies on it with `bayplan why -f pod.yaml --snapshot FILE policy.py`"


def said_of_snapshot(path: Path, wanted: str) -> str:
    """``a snapshot of a cluster, and no recording: ...``; ``""`` if the file is none.

    The file is read anew: the line in which reading failed may not be its first.
    """
    if not _OBJECT.match(_beginning(path)):
        return ""
    return f"a snapshot of a cluster, and {wanted}; {_HOW}"


def _beginning(path: Path) -> bytes:
    """The first bytes, unpacked if they are packed; none of a pipe, which might make us wait."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            first = file.read(_LOOKED_AT)
        return zlib.decompressobj(31).decompress(first, _LOOKED_AT) if first[:2] == b"\x1f\x8b" else first
    except (OSError, zlib.error):
        return b""
