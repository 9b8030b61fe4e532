"""The lines of a prioritize answer for all nodes of a cluster, as one block that NumPy copies rows of.

All lines have one length: shorter names are followed by blanks, which JSON allows between tokens. The score
comes first, so that it is at the same offset in each line; it is filled in when a line is copied.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_BEFORE = ',{"Score":'
_TENS, _ONES = len(_BEFORE), len(_BEFORE) + 1
# With more blanks than this share, reading them costs the caller more than the block saves here.
_MOST_BLANKS = 0.2


class HostLines:
    """The block of lines for one list of names."""

    __slots__ = ("_block",)

    def __init__(self, block: NDArray[np.uint8]) -> None:
        self._block = block

    @classmethod
    def of(cls, names: Sequence[str]) -> "HostLines | None":
        """The block for names that need no escapes; ``None`` if their lengths differ too much."""
        lines = [f'{_BEFORE}  ,"Host":"{name}"}}' for name in names]
        width = max(map(len, lines), default=0)
        text = "".join(line.ljust(width) for line in lines)
        if not text.isascii() or len(text) > (1 + _MOST_BLANKS) * sum(map(len, lines)):
            return None
        return cls(np.frombuffer(text.encode(), dtype=np.uint8).reshape(len(names), width))

    def answer(self, rows: NDArray[np.integer], scores: NDArray[np.integer]) -> bytes:
        """The prioritize answer for the nodes of these rows, at least one; scores are 0 to 10."""
        count, width = len(rows), self._block.shape[1]
        told = np.empty(count * width + 1, dtype=np.uint8)
        lines = told[:-1].reshape(count, width)
        # Any other mode copies the lines twice. Nothing is clipped: the rows are rows of the cluster.
        self._block.take(rows, axis=0, out=lines, mode="clip")
        lines[:, _ONES] = scores % 10 + ord("0")
        lines[scores == 10, _TENS] = ord("1")
        told[0], told[-1] = b"[]"
        return told.tobytes()
