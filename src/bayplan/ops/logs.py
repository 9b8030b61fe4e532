"""Log lines for people, as JSON or as klog writes them; they say what they are about by the same keys.

``generation`` stands on every line; ``pod``, ``node`` and ``decision`` where a line is about one. Whoever
logs gives them as ``extra``; inside a hook the pod is known anyway.
"""

import logging
import os
import sys
import time
from datetime import UTC, datetime
from typing import Literal

import msgspec

from bayplan.engine.guard import CURRENT_POD

LogFormat = Literal["text", "json", "klog"]

_ENCODER = msgspec.json.Encoder()
_KLOG_LETTERS = {logging.WARNING: "W", logging.ERROR: "E", logging.CRITICAL: "F"}
# All that ends a line somewhere, or that a terminal obeys: as Python writes it, and as JSON can.
_BEYOND_ASCII = (*range(0x7F, 0xA0), 0x2028, 0x2029)
_CONTROLS = {code: repr(chr(code))[1:-1] for code in (*range(0x20), *_BEYOND_ASCII) if code != 9}
_JSON_CONTROLS = {code: f"\\u{code:04x}" for code in _BEYOND_ASCII}
# One number for the process: a line that is written during a reload belongs to neither.
_generation = 1


def set_generation(number: int) -> None:
    """Which configuration is at work from now on, for every line."""
    global _generation  # noqa: PLW0603 - logging is one for the process, and so is this
    _generation = number


def set_up_logging(*, level: str = "INFO", format: LogFormat = "text") -> None:
    """Send the log to stderr, once for the whole process."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_FORMATTERS[format]())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # One line a request is too much at 300 pods a second; our own metrics count them.
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        message = _one_line(_text(record))
        said = {word.strip(":;,()") for word in message.split()}
        # People need not be told what the message says, nor of the first generation.
        about = "".join(
            f" {key}={_one_line(str(value))}" for key, value in _about(record).items() if value not in said
        )
        about += f" generation={_generation}" if _generation > 1 else ""
        line = f"{_stamp(record)} {record.levelname:<7} {message}{about}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, str | int] = {
            "time": _stamp(record, timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _text(record),
            "generation": _generation,
            **_about(record),
        }
        if record.exc_info:
            line["exception"] = _encodable(self.formatException(record.exc_info))
        return _json(line)


class _KlogFormatter(logging.Formatter):
    """``I1115 22:50:04.123456   12345 file.py:12] message key="value"``, to stand among kube-scheduler's."""

    def format(self, record: logging.LogRecord) -> str:
        letter = _KLOG_LETTERS.get(record.levelno, "I")
        # In local time, as klog has it: its lines name no zone.
        when = datetime.fromtimestamp(record.created).strftime("%m%d %H:%M:%S.%f")
        about = {**_about(record), "generation": _generation}
        pairs = "".join(f" {key}={_json(value)}" for key, value in about.items())
        place = f"{os.getpid():>7} {record.filename}:{record.lineno}]"
        line = f"{letter}{when} {place} {_one_line(_text(record))}{pairs}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


_FORMATTERS: dict[str, type[logging.Formatter]] = {
    "text": _TextFormatter,
    "json": _JsonFormatter,
    "klog": _KlogFormatter,
}


def _about(record: logging.LogRecord) -> dict[str, str | int]:
    """The pod, the node and the decision that the line is about, as far as it is about one."""
    known = {
        "pod": getattr(record, "pod", "") or CURRENT_POD.get(),
        "node": getattr(record, "node", ""),
        "decision": getattr(record, "decision", 0),
    }
    return {
        key: value if isinstance(value, int) else _encodable(str(value))
        for key, value in known.items()
        if value
    }


def _stamp(record: logging.LogRecord, *, timespec: str = "seconds") -> str:
    """The time as RFC 3339 has it, in UTC."""
    when = datetime.fromtimestamp(record.created, UTC)
    return when.isoformat(timespec=timespec).replace("+00:00", "Z")


def _one_line(text: str) -> str:
    """Names come from requests, texts from annotations: none of them may forge a line, or rule a terminal."""
    return text if text.isprintable() else text.translate(_CONTROLS)


def _json(value: object) -> str:
    return _ENCODER.encode(value).decode().translate(_JSON_CONTROLS)


def _text(record: logging.LogRecord) -> str:
    return _encodable(record.getMessage())


def _encodable(text: str) -> str:
    """The text without halves of surrogate pairs: no encoding has a place for them."""
    return text.encode(errors="backslashreplace").decode()


class Sparingly:
    """Lets a message through once in a while, and says how many it held back."""

    def __init__(self, *, every_seconds: float = 10.0) -> None:
        self._every = every_seconds
        self._last: dict[str, float] = {}
        self._held: dict[str, int] = {}

    def warn(self, log: logging.Logger, key: str, message: str, **about: str | int) -> None:
        """Log ``message`` unless one with the same key went out just now; ``about`` as in ``extra``."""
        now = time.monotonic()
        if now - self._last.get(key, -self._every) < self._every:
            self._held[key] = self._held.get(key, 0) + 1
            return
        if len(self._last) > 1000:
            self._last.clear()
            self._held.clear()
        held = self._held.pop(key, 0)
        self._last[key] = now
        more = f" (and {held} times more)" if held else ""
        # The line belongs to whoever warns.
        log.warning("%s%s", message, more, extra=about, stacklevel=2)
