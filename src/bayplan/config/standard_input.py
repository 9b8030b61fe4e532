"""Standard input, where ``-`` stands for a file."""

import errno
import sys


def read_standard_input() -> bytes:
    """All of it; `OSError` where there is none, as with ``<&-`` in a shell."""
    # So Python says that it was closed before the start.
    if sys.stdin is None:
        raise OSError(errno.EBADF, "standard input is closed")
    return sys.stdin.buffer.read()
