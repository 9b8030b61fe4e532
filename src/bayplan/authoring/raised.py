"""Texts from a user's code, such as those of exceptions, whatever that code does."""

import inspect
import re
import sys

from bayplan.kube.yaml import suggest

_OPTION = re.compile(r"(\w+)(?:\.__init__)?\(\) got an unexpected keyword argument '(\w+)'")


def safe_text(error: BaseException, *, limit: int = 300) -> str:
    """The text of an exception, on one line and shortened; the user's ``__str__`` may itself fail."""
    try:
        return printable(" ".join(str(error).split()), limit=limit)
    except BaseException:
        # Whatever it raises, even SystemExit, is no reason to lose the error itself.
        return "(its text cannot be printed)"


def printable(text: str, *, limit: int) -> str:
    """A text from a user's code, shortened, and without the half surrogate pairs that JSON cannot hold."""
    return encodable(text if len(text) <= limit else text[: limit - 1] + "…")


def encodable(text: str) -> str:
    """The text without half surrogate pairs, which Python allows and JSON does not."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def option_meant(error: BaseException) -> str:
    """``; did you mean 'weight'?`` after ``@bayplan.score(wieght=2)``, which older Pythons do not suggest."""
    found = _OPTION.fullmatch(safe_text(error)) if isinstance(error, TypeError) else None
    called = getattr(sys.modules.get("bayplan"), found[1], None) if found else None
    if found is None or not callable(called):
        return ""
    options = inspect.signature(called).parameters.values()
    return suggest(found[2], [option.name for option in options if option.kind == option.KEYWORD_ONLY])
