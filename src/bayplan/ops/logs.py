"""Log lines: text for people, JSON for machines; they say which pod and which generation it is about."""

import logging
import sys
import time
from datetime import UTC, datetime

import msgspec

from bayplan.engine.guard import CURRENT_POD

_ENCODER = msgspec.json.Encoder()
# One number for the process: a line that is written during a reload belongs to neither.
_generation = 1


def set_generation(number: int) -> None:
    """Which configuration is at work from now on, for every line."""
    global _generation  # noqa: PLW0603 - logging is one for the process, and so is this
    _generation = number


def set_up_logging(*, level: str = "INFO", json: bool = False) -> None:
    """Send the log to stderr, once for the whole process."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if json else _TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # One line a request is too much at 300 pods a second; our own metrics count them.
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        pod = CURRENT_POD.get()
        line = f"{_stamp(record)} {record.levelname:<7} {_one_line(record)}{f' pod={pod}' if pod else ''}"
        # Of the first one people need not be told.
        line += f" generation={_generation}" if _generation > 1 else ""
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, str | int] = {
            "time": _stamp(record, timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _text(record),
            "generation": _generation,
        }
        if pod := CURRENT_POD.get():
            line["pod"] = pod
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return _ENCODER.encode(line).decode()


def _stamp(record: logging.LogRecord, *, timespec: str = "seconds") -> str:
    """The time as RFC 3339 has it, in UTC."""
    when = datetime.fromtimestamp(record.created, UTC)
    return when.isoformat(timespec=timespec).replace("+00:00", "Z")


def _one_line(record: logging.LogRecord) -> str:
    """The message; names come from requests, and one with a newline in it must not forge a line."""
    return _text(record).replace("\r", "\\r").replace("\n", "\\n")


def _text(record: logging.LogRecord) -> str:
    """The message, without halves of surrogate pairs: no encoding has a place for them."""
    return record.getMessage().encode(errors="backslashreplace").decode()


class Sparingly:
    """Lets a message through once in a while, and says how many it held back."""

    def __init__(self, *, every_seconds: float = 10.0) -> None:
        self._every = every_seconds
        self._last: dict[str, float] = {}
        self._held: dict[str, int] = {}

    def warn(self, log: logging.Logger, key: str, message: str) -> None:
        """Log ``message`` unless one with the same key went out just now."""
        now = time.monotonic()
        if now - self._last.get(key, -self._every) < self._every:
            self._held[key] = self._held.get(key, 0) + 1
            return
        if len(self._last) > 1000:
            self._last.clear()
        held = self._held.pop(key, 0)
        self._last[key] = now
        log.warning("%s%s", message, f" (and {held} times more)" if held else "")
