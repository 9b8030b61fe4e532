"""Remembers parsed request heads: kube-scheduler repeats them, except for the value of Content-Length.

A caller sends the same head thousands of times. The result of parsing it once, with a callback for each
header, holds for the next request too if all bytes but that number are equal.
"""

import re
from collections import deque
from dataclasses import dataclass

from bayplan.runtimes.extender.exchange import Request

# One for each verb.
_REMEMBERED = 4
LONGEST = 2048
"""The longest head that is remembered."""
_MOST_DIGITS = 12
_LENGTH = re.compile(rb"\r\ncontent-length:[ ]?([1-9][0-9]*)\r\n", re.IGNORECASE)
# Heads with one of these headers always go to the parser.
_SPECIAL = frozenset({"connection", "expect", "transfer-encoding", "upgrade"})


@dataclass(frozen=True)
class Head:
    """A parsed head: the bytes before and after the value of Content-Length, and what they mean."""

    before: bytes
    after: bytes
    method: str
    path: str
    headers: dict[str, str]


class Heads:
    """The heads that one caller sent last."""

    def __init__(self) -> None:
        self._known: deque[Head] = deque(maxlen=_REMEMBERED)

    def remember(self, data: bytes, request: Request) -> None:
        """Remember the head at the start of ``data``, which was parsed into ``request``."""
        end = data.find(b"\r\n\r\n", 0, LONGEST) + len(b"\r\n\r\n")
        lengths = list(_LENGTH.finditer(data, 0, end))
        usual = request.method == "POST" and request.keep_alive and not request.headers.keys() & _SPECIAL
        if len(lengths) != 1 or not usual or data.lower().count(b"content-length", 0, end) != 1:
            return
        first, last = lengths[0].span(1)
        head = Head(data[:first], data[last:end], request.method, request.path, request.headers)
        if head not in self._known:
            self._known.append(head)

    def find(self, data: bytearray, count: int) -> tuple[Head, int, int] | None:
        """The known head at the start of ``data``, the length of its body, and where the body begins.

        ``None`` if no known head is complete within the first ``count`` bytes.
        """
        for head in self._known:
            if not data.startswith(head.before):
                continue
            first = len(head.before)
            last = data.find(b"\r", first, first + _MOST_DIGITS + 1)
            end = last + len(head.after)
            digits = data[first:last] if last > first else b""
            if digits.isdigit() and end <= count and data.startswith(head.after, last):
                return head, int(digits), end
        return None
