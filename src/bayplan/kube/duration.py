"""Durations as Kubernetes writes them: ``300ms``, ``5s``, ``2m``, ``1h30m``."""

import re
from typing import Any

_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class Duration:
    """A length of time above zero."""

    __slots__ = ("seconds", "text")

    def __init__(self, text: str) -> None:
        parts = _PART.findall(text)
        if "".join(number + unit for number, unit in parts) != text or not parts:
            raise ValueError(f"{text!r} is not a duration: want a number and a unit, such as 300ms, 5s or 2m")
        self.text = text
        self.seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
        if self.seconds <= 0:
            raise ValueError("a duration must be above zero")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Duration) and self.seconds == other.seconds

    def __hash__(self) -> int:
        return hash(self.seconds)

    def __repr__(self) -> str:
        return f"Duration({self.text!r})"


def decode_duration(kind: type, value: Any) -> Any:
    """The hook through which msgspec reads a `Duration`."""
    if kind is Duration:
        if not isinstance(value, str):
            raise ValueError(f"a duration is text with a unit, such as 5s; got {value!r}")
        return Duration(value)
    raise NotImplementedError(f"no way to read a {kind!r}")
