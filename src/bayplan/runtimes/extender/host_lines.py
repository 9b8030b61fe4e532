"""What prioritize answers, as a line for every node of a cluster, side by side: thousands are copied at once.

All are of one length. Names that are shorter are followed by blanks, which mean nothing between the parts of
JSON. The score comes first, so that it stands at the same place in each; it is filled in when a line is told.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_BEFORE = ',{"Score":'
_TENS, _ONES = len(_BEFORE), len(_BEFORE) + 1
# Where names are so different in length, blanks would cost whoever reads them more than they save us.
_MOST_BLANKS = 0.2


class HostLines:
    """The lines of one list of names."""

    __slots__ = ("_block",)

    def __init__(self, block: NDArray[np.uint8]) -> None:
        self._block = block

    @classmethod
    def of(cls, names: Sequence[str]) -> "HostLines | None":
        """The lines of names that need no escapes; ``None`` where they are of too different lengths."""
        lines = [f'{_BEFORE}  ,"Host":"{name}"}}' for name in names]
        width = max(map(len, lines), default=0)
        text = "".join(line.ljust(width) for line in lines)
        if not text.isascii() or len(text) > (1 + _MOST_BLANKS) * sum(map(len, lines)):
            return None
        return cls(np.frombuffer(text.encode(), dtype=np.uint8).reshape(len(names), width))

    def answer(self, rows: NDArray[np.integer], scores: NDArray[np.integer]) -> bytes:
        """What prioritize answers about the nodes of these rows, at least one; scores are 0 to 10."""
        count, width = len(rows), self._block.shape[1]
        told = np.empty(count * width + 1, dtype=np.uint8)
        lines = told[:-1].reshape(count, width)
        # With another mode the lines would be copied twice; the rows are those of the cluster.
        self._block.take(rows, axis=0, out=lines, mode="clip")
        lines[:, _ONES] = scores % 10 + ord("0")
        lines[scores == 10, _TENS] = ord("1")
        told[0], told[-1] = b"[]"
        return told.tobytes()
