"""Log formats: for people, JSON and klog, all with the same keys.

Every line has ``generation``; a line about a pod, a node or a decision has ``pod``, ``node`` or ``decision``.
The caller passes them as ``extra``; inside a hook ``pod`` is set anyway.
"""

import logging
import os
import sys
import time
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from bayplan.engine.guard import CURRENT_POD

LogFormat = Literal["text", "json", "klog"]

_ENCODER = msgspec.json.Encoder()
_KLOG_LETTERS = {logging.WARNING: "W", logging.ERROR: "E", logging.CRITICAL: "F"}
# Characters that end a line or control a terminal are escaped, as Python writes them and JSON can.
_BEYOND_ASCII = (*range(0x7F, 0xA0), 0x2028, 0x2029)
_CONTROLS = {code: repr(chr(code))[1:-1] for code in (*range(0x20), *_BEYOND_ASCII) if code != 9}
_JSON_CONTROLS = {code: f"\\u{code:04x}" for code in _BEYOND_ASCII}
# One number for the process: lines during a reload are not told apart.
_generation = 1


def set_generation(number: int) -> None:
    """Set the generation of the configuration, which every line shows."""
    global _generation  # noqa: PLW0603 - logging is one for the process, and so is this
    _generation = number


def set_up_logging(*, level: str = "INFO", format: LogFormat = "text") -> None:
    """Send the log of the whole process to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_FORMATTERS[format]())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # No access log: a line per request is too much at 300 pods a second; metrics count requests.
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)


class _Formatter(logging.Formatter):
    def formatException(self, ei: Any) -> str:  # noqa: N802 - Python's own name
        try:
            return super().formatException(ei)
        except Exception:
            # A user's class of exception is no reason to lose the line, or to fail who writes it.
            return "(its traceback cannot be printed)"


class _TextFormatter(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        message = _one_line(_text(record))
        said = {word.strip(":;,()") for word in message.split()}
        # For people: without keys that the message has already, and without the first generation.
        about = "".join(
            f" {key}={_one_line(str(value))}" for key, value in _about(record).items() if value not in said
        )
        about += f" generation={_generation}" if _generation > 1 else ""
        line = f"{_stamp(record)} {record.levelname:<7} {message}{about}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _JsonFormatter(_Formatter):
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


class _KlogFormatter(_Formatter):
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
    """The pod, the node and the decision of the line, as far as it has them."""
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
    """Escape a text: names and annotations must neither forge a log line nor control a terminal."""
    return text if text.isprintable() else text.translate(_CONTROLS)


def _json(value: object) -> str:
    return _ENCODER.encode(value).decode().translate(_JSON_CONTROLS)


def _text(record: logging.LogRecord) -> str:
    return _encodable(record.getMessage())


def _encodable(text: str) -> str:
    """The text without lone surrogates, which cannot be encoded."""
    return text.encode(errors="backslashreplace").decode()


class Sparingly:
    """Rate-limits a message, and says how many were suppressed."""

    def __init__(self, *, every_seconds: float = 10.0) -> None:
        self._every = every_seconds
        self._last: dict[str, float] = {}
        self._held: dict[str, int] = {}

    def warn(self, log: logging.Logger, key: str, message: str, **about: str | int) -> None:
        """Log ``message`` unless one with the same key was logged just now; ``about`` as in ``extra``."""
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
        # Report the caller's file and line.
        log.warning("%s%s", message, more, extra=about, stacklevel=2)
