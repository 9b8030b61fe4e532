"""The file of a recording: lines are appended, and survive the death of the process.

It is compressed if its name ends in ``.gz``, and flushed so that all that was written can be read even if the
end is missing. An existing or full file is renamed only once there is a new one, so that a full disk loses
nothing.
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
"""zlib's ``wbits`` for a gzip header and the largest window."""
_FAST = 1


class _Compressor(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...
    def flush(self, mode: int = ..., /) -> bytes: ...


class RecordingFile:
    """One file that is being written."""

    def __init__(self, path: Path, *, first: bytes, keep: Callable[[Path], bool] = lambda _: True) -> None:
        """``first`` is the first line. ``keep`` says whether an existing file must be kept."""
        path.parent.mkdir(parents=True, exist_ok=True)
        there = _is_there(path)
        self.path = path
        self.size_bytes = 0
        """The size of the file."""
        self._compressor: _Compressor | None = (
            zlib.compressobj(_FAST, zlib.DEFLATED, _GZIP) if path.suffix == ".gz" else None
        )
        fresh = path.with_name(f"{path.name}.new")
        # Left behind by a process that was killed.
        fresh.unlink(missing_ok=True)
        self._file = fresh.open("xb", buffering=0)
        try:
            # Its owner decides who may read it.
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
        """Make all that was written readable."""
        if self._compressor is not None:
            self._put(self._compressor.flush(zlib.Z_SYNC_FLUSH))

    def close(self) -> None:
        """Finish and close the file."""
        if self._compressor is not None:
            self._put(self._compressor.flush(zlib.Z_FINISH))
        self._file.close()

    def give_up(self) -> None:
        """Close the file as it is."""
        self._file.close()

    def _put(self, data: bytes) -> None:
        put_all(self._file, data)
        self.size_bytes += len(data)


def passes(error: OSError) -> bool:
    """Whether the error is transient, such as a full disk; otherwise the path can never be written."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO)


def _is_there(path: Path) -> bool:
    """Whether the file exists; raises an error if it is no regular file, which must not be renamed."""
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
    """The path of a rotated file: ``FILE.1`` is the newest, ``FILE.2`` older."""
    return path.with_name(f"{path.name}.{number}")


def put_all(file: FileIO, data: bytes) -> None:
    """Write all of the data: a nearly full disk may take only a part at a time."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) or 0 :]
