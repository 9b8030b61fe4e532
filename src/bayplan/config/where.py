"""Says where a setting that cannot be used was given: in which line, or by which flag."""

import contextlib
from collections.abc import Iterator

from bayplan.config.flags import Loaded
from bayplan.config.load import ConfigError, SettingError, place

_FLAGS = {
    "extender.listen": ("--listen", "listen"),
    "extender.opsListen": ("--ops-listen", "ops_listen"),
    "page.listen": ("--page-listen", "page_listen"),
    "scheduler.opsListen": ("--ops-listen", "ops_listen"),
}


@contextlib.contextmanager
def naming_the_line(loaded: Loaded) -> Iterator[None]:
    """Have errors about a setting begin with its file and line, or with the flag that gave it."""
    try:
        yield
    except SettingError as error:
        raise ConfigError(f"{_where(error.key, loaded)}{error.text}") from error


def _where(key: str, loaded: Loaded) -> str:
    flag, attribute = _FLAGS.get(key, ("", ""))
    if attribute and getattr(loaded.flags, attribute) is not None:
        return flag
    document, path = loaded.document, tuple(key.split("."))
    # A default is in no line.
    return place(document, path) if document is not None and path in document.lines else key
