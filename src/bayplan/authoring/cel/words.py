"""What the library says about numbers and missing values, in our words, with what to write instead."""

import re

_STATUS = re.compile(r"^[A-Z_]+: |\s*\[[A-Z_]+\]\s*$")
_NO_SUCH_KEY = re.compile(r"^NOT_FOUND: Key not found in map : (.*)$")
_NO_OVERLOAD = re.compile(r"^No matching overloads found : \S+?\((.*)\)$")
_NO_NUMBER = re.compile(r"cannot convert string to (\w+)")
_NUMBERS = re.compile(r"int64|uint64|double")
_APPLIED = re.compile(r"no matching overload for '\W+' applied to '\((.*)\)'")
_WHOLE_AND_DECIMAL = re.compile(r"int(?:64)?, double|double, int(?:64)?")
_MIXED = (
    "whole numbers and decimals do not go together here; write double(...) around the whole number,"
    " as in double(column['cpu.free']), or 2.0 for 2"
)
# What to ask about a text before it is converted. A backslash would need care in YAML; [.] does not.
_WHOLE = ".matches('^[0-9]+$'); a number such as 0.5 is read with double(...)"
_DECIMAL = ".matches('^[0-9]+([.][0-9]+)?$')"


def without_status(message: str) -> str:
    """The library's error without its code, which it writes in front or behind."""
    return _STATUS.sub("", _STATUS.sub("", message))


def of_evaluation(message: str) -> str:
    """An error of an expression that ran."""
    said = without_status(message)
    if missing := _NO_SUCH_KEY.match(message):
        key = missing[1]
        return f"{key} is not there; read it with [?{key}].orValue(...), or ask first: {key} in ..."
    if unfit := _NO_OVERLOAD.match(said):
        return _of_operands(unfit[1]) or said
    if unread := _NO_NUMBER.search(said):
        first = _DECIMAL if unread[1] == "double" else _WHOLE
        return f"{said}: a text there is no number; ask first, as with {first}"
    return said


def of_compilation(said: str) -> str:
    """An error of an expression that was not run; in our words if its operands are numbers of two kinds."""
    unfit = _APPLIED.search(said)
    return _MIXED if unfit and _WHOLE_AND_DECIMAL.fullmatch(unfit[1]) else said


def _of_operands(kinds: str) -> str:
    """What to do about operands of these types; ``""`` if unknown."""
    if "*opaque*" in kinds:
        return "what [?...] gives may be missing; add .orValue(...) before it is used"
    if "string" in kinds and _NUMBERS.search(kinds):
        number = "double" if "double" in kinds else "int"
        return f"a text and a number do not go together; make a number of the text, as with {number}(...)"
    return _MIXED if _WHOLE_AND_DECIMAL.fullmatch(kinds) else ""
