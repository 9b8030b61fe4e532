"""The file: lines are added to its end, and what was added survives the death of the process.

It is compressed where its name ends in ``.gz``: flushed so that all that was written can be read, also when
the end is missing. A file that is there already, or is full, is kept under another name.
"""

import zlib
from io import FileIO
from pathlib import Path
from typing import Protocol

_GZIP = 31
"""A gzip header and the largest window, as zlib says it."""
_FAST = 1


class _Compressor(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...
    def flush(self, mode: int = ..., /) -> bytes: ...


class RecordingFile:
    """One file that is being written."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            path.replace(older(path))
        self.path = path
        self.size_bytes = 0
        """How large the file is."""
        self._file = path.open("xb", buffering=0)
        # Whoever may read what was decided is for its owner to say.
        path.chmod(0o600)
        self._compressor: _Compressor | None = (
            zlib.compressobj(_FAST, zlib.DEFLATED, _GZIP) if path.suffix == ".gz" else None
        )

    def write(self, lines: bytes) -> None:
        """Add lines."""
        self._put(self._compressor.compress(lines) if self._compressor else lines)

    def flush(self) -> None:
        """Let readers have all that was written."""
        if self._compressor is not None:
            self._put(self._compressor.flush(zlib.Z_SYNC_FLUSH))

    def close(self) -> None:
        """End the file."""
        if self._compressor is not None:
            self._put(self._compressor.flush(zlib.Z_FINISH))
        self._file.close()

    def give_up(self) -> None:
        """Leave the file as it is."""
        self._file.close()

    def _put(self, data: bytes) -> None:
        put_all(self._file, data)
        self.size_bytes += len(data)


def older(path: Path, number: int = 1) -> Path:
    """The name under which a file before this one is kept: ``FILE.1`` is the last, ``FILE.2`` older."""
    return path.with_name(f"{path.name}.{number}")


def put_all(file: FileIO, data: bytes) -> None:
    """Write all of it: a file that is nearly full takes a part."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) or 0 :]
