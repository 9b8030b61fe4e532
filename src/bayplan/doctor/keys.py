"""Keys and values that kube-scheduler cannot decode: it does not start with any of them."""

import base64
import binascii
import difflib
from collections.abc import Callable, Iterator
from typing import Any

from bayplan.doctor.duration import go_seconds, in_words
from bayplan.doctor.finding import Finding, Put, Remove, Rename, Repair
from bayplan.doctor.scheduler_file import SchedulerFile
from bayplan.doctor.schema import (
    ANY,
    BOOL,
    BYTES,
    DURATION,
    GONE_WITH_V1,
    NUMBER,
    TEXT,
    Keys,
    Whole,
    keys_of,
)
from bayplan.doctor.setting import Setting
from bayplan.doctor.traps_of_entries import TIMEOUT_UNIT
from bayplan.doctor.traps_of_files import (
    BAD_VALUE,
    EXTENDERS_IN_A_PROFILE,
    KEY_CASE,
    UNKNOWN_KEY,
    VALUE_OUT_OF_RANGE,
)
from bayplan.kube.yaml import Path, suggest

_NANOSECONDS_FROM = 1_000_000
_WANTED = {
    TEXT: "text",
    BOOL: "true or false",
    NUMBER: "a number",
    DURATION: "text with a unit, such as 5s",
    BYTES: "base64",
}


def check_keys(file: SchedulerFile, _: Setting) -> Iterator[Finding]:
    """Unknown keys, keys in another case, values of another type."""
    yield from _mapping(file, file.page.data, keys_of(file.api_version), ())


def _mapping(file: SchedulerFile, data: dict[str, Any], keys: Keys, path: Path) -> Iterator[Finding]:
    for written, value in data.items():
        here = (*path, written)
        right = _right(written, keys)
        if right is None:
            yield _unknown(file, written, keys, here)
            continue
        if right != written:
            there = right in data
            yield file.found(
                KEY_CASE,
                here,
                f"`{written}` is spelled `{right}`" + (", which is there as well" if there else ""),
                repairs=(Remove(here),) if there else (Rename(here, right),),
            )
        yield from _value(file, value, keys[right], here)


def _right(written: str, keys: Keys) -> str | None:
    return next((key for key in keys if key.lower() == written.lower()), None)


def _unknown(file: SchedulerFile, written: str, keys: Keys, here: Path) -> Finding:
    if written.lower() == "extenders" and here[0] == "profiles":
        return file.found(EXTENDERS_IN_A_PROFILE, here, "`extenders` stands in a profile")
    if written in GONE_WITH_V1 and len(here) == 1:
        what = f"`{written}` is gone in v1; kube-scheduler has the flags --bind-address and --secure-port"
        return file.found(UNKNOWN_KEY, here, what, repairs=(Remove(here),))
    near = difflib.get_close_matches(written, list(keys), n=1, cutoff=0.75)
    repairs: tuple[Repair, ...] = (Rename(here, near[0]),) if near else ()
    return file.found(UNKNOWN_KEY, here, f"unknown key `{written}`{suggest(written, keys)}", repairs=repairs)


def _value(file: SchedulerFile, value: Any, kind: Any, here: Path) -> Iterator[Finding]:
    # To Go, null is the same as nothing.
    if value is None or kind == ANY:
        return
    if isinstance(kind, Whole):
        yield from _number(file, value, kind, here)
    elif isinstance(kind, str):
        if not _FITS[kind](value):
            yield _bad(file, value, kind, here)
    elif isinstance(kind, list):
        if not isinstance(value, list):
            yield file.found(BAD_VALUE, here, f"want a list, got {_shown(value)}")
            return
        for number, item in enumerate(value):
            yield from _value(file, item, kind[0], (*here, number))
    elif not isinstance(value, dict):
        yield file.found(BAD_VALUE, here, f"want a mapping, got {_shown(value)}")
    else:
        yield from _mapping(file, value, kind, here)


def _number(file: SchedulerFile, value: Any, kind: Whole, here: Path) -> Iterator[Finding]:
    if not _whole(value):
        what = f"want a whole number, got {_shown(value)}"
        yield file.found(BAD_VALUE, here, what, repairs=_as_number(value, here))
    elif not kind.least <= value <= kind.most:
        what = f"{_shown(value)} is not between {kind.least} and {kind.most}"
        yield file.found(VALUE_OUT_OF_RANGE, here, what)


def _as_number(value: Any, here: Path) -> tuple[Repair, ...]:
    """A number in quotes, without them."""
    meant = isinstance(value, str) and value.isdecimal() and len(value) < 10
    return (Put(here, int(value)),) if meant else ()


def _bad(file: SchedulerFile, value: Any, kind: str, here: Path) -> Finding:
    if kind == DURATION and isinstance(value, int | float) and not isinstance(value, bool):
        text = _meant(value)
        what = f"{value} has no unit; it looks like {text}"
        if str(here[-1]).lower() == "httptimeout":
            return file.found(TIMEOUT_UNIT, here, what, repairs=(Put(here, text),))
        return file.found(BAD_VALUE, here, what, repairs=(Put(here, text),))
    repairs: tuple[Repair, ...] = ()
    hint = ""
    if kind == BOOL and isinstance(value, str) and (near := _near_flag(value)):
        repairs = (Put(here, near == "true"),)
        hint = f"; did you mean {near}?" if near != value.lower() else ""
    elif kind == NUMBER:
        repairs = _as_number(value, here)
    elif kind == TEXT and isinstance(value, int | float) and not isinstance(value, bool):
        repairs = (Put(here, str(value)),)
    return file.found(BAD_VALUE, here, f"want {_WANTED[kind]}, got {_shown(value)}{hint}", repairs=repairs)


def _near_flag(text: str) -> str:
    """``true`` or ``false`` if the text is one of them, or one of them mistyped; else nothing."""
    return "".join(difflib.get_close_matches(text.lower(), ["true", "false"], n=1, cutoff=0.75))


def _meant(number: float) -> str:
    """Large numbers were nanoseconds once; of small ones people mean seconds."""
    if number <= 0:
        return "5s"
    return in_words(number / 1e9) if number >= _NANOSECONDS_FROM else in_words(float(number))


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return str(value).lower()
    return f"the text {value[:40]!r}" if isinstance(value, str) else str(value)[:40]


def _base64(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(base64.b64decode("".join(value.split()), validate=True))
    except (binascii.Error, ValueError):
        return False


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_FITS: dict[str, Callable[[Any], bool]] = {
    TEXT: lambda value: isinstance(value, str),
    BOOL: lambda value: isinstance(value, bool),
    NUMBER: lambda value: _whole(value) or isinstance(value, float),
    DURATION: lambda value: isinstance(value, str) and go_seconds(value) is not None,
    BYTES: _base64,
}
