"""``; did you mean 'serve'?`` for words on the command line."""

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """A tail for an error message."""
    names = list(known)
    close = difflib.get_close_matches(word, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are: {', '.join(names)}"
