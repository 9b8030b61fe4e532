"""The file: lines are added to its end, and what was added survives the death of the process.

It is compressed where its name ends in ``.gz``: flushed so that all that was written can be read, also when
the end is missing. A file that is there already, or is full, is kept under another name, once there is a new
one: a disk without room for that loses nothing of what it holds.
"""

import contextlib
import errno
import stat
import zlib
from collections.abc import Callable
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

    def __init__(self, path: Path, *, first: bytes, keep: Callable[[Path], bool] = lambda _: True) -> None:
        """``first`` is its first line. ``keep`` says whether a file that is there already is worth it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        there = _is_there(path)
        self.path = path
        self.size_bytes = 0
        """How large the file is."""
        self._compressor: _Compressor | None = (
            zlib.compressobj(_FAST, zlib.DEFLATED, _GZIP) if path.suffix == ".gz" else None
        )
        fresh = path.with_name(f"{path.name}.new")
        # Of a process that was killed in between.
        fresh.unlink(missing_ok=True)
        self._file = fresh.open("xb", buffering=0)
        try:
            # Whoever may read what was decided is for its owner to say.
            fresh.chmod(0o600)
            self.write(first)
            self.flush()
            if there and keep(path):
                path.replace(older(path))
            fresh.replace(path)
        except BaseException:
            self._file.close()
            with contextlib.suppress(OSError):
                fresh.unlink()
            raise

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


def passes(error: OSError) -> bool:
    """Whether a disk is full or fails, which a server outlives; else the place is one that never will do."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO)


def _is_there(path: Path) -> bool:
    """Whether there is a file already; an error for what is no file: it is not ours to be moved away."""
    try:
        found = path.stat()
    except FileNotFoundError:
        if path.is_symlink():
            raise OSError(errno.EEXIST, f"a link to {path.readlink()}, which is not there") from None
        return False
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    return True


def older(path: Path, number: int = 1) -> Path:
    """The name under which a file before this one is kept: ``FILE.1`` is the last, ``FILE.2`` older."""
    return path.with_name(f"{path.name}.{number}")


def put_all(file: FileIO, data: bytes) -> None:
    """Write all of it: a file that is nearly full takes a part."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) or 0 :]
