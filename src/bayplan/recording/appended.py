"""An append-only file of lines that is rotated when it is full: ``FILE.1``, ``FILE.2``, ...

It has whole lines only: after half a line, of a killed process or a full disk, the next line begins anew.
"""

import contextlib
import errno
import fcntl
import os
import stat
from io import FileIO
from pathlib import Path

from bayplan.recording.sink import older, put_all

_OWNER_ALONE = 0o600


class AppendedFile:
    """The newest of several rotated files; only one process may write it."""

    def __init__(self, path: Path, *, max_bytes: int, keep: int) -> None:
        """``keep`` is how many rotated files are kept."""
        self._path = path
        self._max_bytes = max_bytes
        self._keep = keep
        self._size_bytes = 0
        self._file: FileIO | None = None

    def open(self) -> bool:
        """Open the file if necessary; whether it is another file than before."""
        if self._file is not None:
            # The file may have been removed: what is written to it would be lost.
            if os.fstat(self._file.fileno()).st_nlink:
                return False
            self.close()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise NotADirectoryError(errno.ENOTDIR, f"{self._path.parent} is not a directory") from None
        file = FileIO(self._path, "ab+", opener=_opened)
        try:
            self._size_bytes = _claimed(file)
            if self._size_bytes and os.pread(file.fileno(), 1, self._size_bytes - 1) != b"\n":
                put_all(file, b"\n")
                self._size_bytes += 1
        except BaseException:
            file.close()
            raise
        self._file = file
        return True

    def write(self, line: bytes) -> None:
        """Append a line, as a whole or not at all."""
        assert self._file is not None, "opened before"
        try:
            put_all(self._file, line)
        except OSError:
            with contextlib.suppress(OSError):
                self._file.truncate(self._size_bytes)
            # Checked again before the next line, since half a line may be there.
            self.close()
            raise
        self._size_bytes += len(line)

    @property
    def full(self) -> bool:
        """Whether the file has reached its maximum size."""
        return self._size_bytes >= self._max_bytes

    def put_aside(self) -> None:
        """Rotate the file: rename it to ``FILE.1``; the next `open` begins a new one."""
        self.close()
        number = self._keep
        while (beyond := older(self._path, number + 1)).exists():
            beyond.unlink()
            number += 1
        for number in range(self._keep, 1, -1):
            with contextlib.suppress(FileNotFoundError):
                older(self._path, number - 1).replace(older(self._path, number))
        with contextlib.suppress(FileNotFoundError):
            if self._keep:
                self._path.replace(older(self._path))
            else:
                self._path.unlink()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _opened(path: str, flags: int) -> int:
    # Opening a pipe without a reader would block.
    return os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, _OWNER_ALONE)


def _claimed(file: FileIO) -> int:
    """Lock the file; returns its size."""
    found = os.fstat(file.fileno())
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    # Its owner decides who may read it, also if the file existed before.
    os.fchmod(file.fileno(), _OWNER_ALONE)
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OSError(errno.EBUSY, "another server writes it: give each a file of its own") from None
    except OSError:
        # Not every file system has locks; two servers on one file are a mistake, but no danger.
        pass
    return found.st_size
