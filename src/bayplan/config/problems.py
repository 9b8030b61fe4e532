"""What a dry run found, each mistake once: a line may fail on no node, on one, on three and on a cluster."""

from collections.abc import Iterable
from typing import Any


class Problems:
    """Texts by the file, the line and the hook that they begin with; the best of each is kept."""

    def __init__(self) -> None:
        self._best: dict[str, tuple[Any, str]] = {}

    def add(self, texts: Iterable[str], *, rank: Any) -> None:
        """Note these; a text takes the place of one of the same mistake whose ``rank`` is lower."""
        for text in texts:
            # "policy.py:14 fast: ZeroDivisionError: ..." begins with all that matters.
            mistake = text.partition(": ")[0]
            if mistake not in self._best or self._best[mistake][0] < rank:
                self._best[mistake] = (rank, text)

    @property
    def texts(self) -> list[str]:
        """One text a mistake, in the order in which they were found."""
        return [text for _, text in self._best.values()]
