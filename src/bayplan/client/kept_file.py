"""The cached content of a small file that may be replaced at any moment: a token, a certificate.

Every request needs it. A ``stat`` (inode, size, mtime) finds nearly all replacements, in a tenth of the time
of a read; for the rest, the file is read once a second anyway.
"""

import time
from pathlib import Path

_READ_SECONDS = 1.0


class KeptFile:
    """The current content of a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._looks: tuple[int, int, int, int] | None = None
        self._read_at = float("-inf")
        self._content = b""

    def content(self) -> bytes:
        """The content; raises `OSError` if it cannot be read."""
        found = self.path.stat()
        looks = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        now = time.monotonic()
        if looks != self._looks or now - self._read_at > _READ_SECONDS:
            self._content = self.path.read_bytes()
            self._looks, self._read_at = looks, now
        return self._content
