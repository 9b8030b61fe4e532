"""The problems of a dry run, each mistake once, although it may occur with 0, 1, 3 nodes and a cluster."""

from collections.abc import Iterable
from typing import Any


class Problems:
    """Problems by file, line and hook; of each the text with the highest rank is kept."""

    def __init__(self) -> None:
        self._best: dict[str, tuple[Any, str]] = {}

    def add(self, texts: Iterable[str], *, rank: Any) -> None:
        """Add problems; a text replaces one of the same mistake with a lower ``rank``."""
        for text in texts:
            # "policy.py:14 fast: ZeroDivisionError: ...": the beginning identifies the mistake.
            mistake = text.partition(": ")[0]
            if mistake not in self._best or self._best[mistake][0] < rank:
                self._best[mistake] = (rank, text)

    @property
    def texts(self) -> list[str]:
        """One text per mistake, in the order in which they were found."""
        return [text for _, text in self._best.values()]
