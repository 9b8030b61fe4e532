"""What people write who know Python, SQL or manifests, and its spelling in CEL."""

import re

_OPERATORS = (
    (re.compile(r"and\b"), "CEL has && for and"),
    (re.compile(r"or\b"), "CEL has || for or"),
    (re.compile(r"if\b"), "CEL has a ? b : c for if and else"),
    (re.compile(r"=~"), "CEL has text.matches('^a') for =~"),
    (re.compile(r"=(?!=)"), "CEL compares with =="),
)
_NOT = re.compile(r"\bnot\s+$")
_AMOUNT = re.compile(r"\b(\d+(?:\.\d+)?)(m|[kKMGT]i?)\b")
_GET = re.compile(r"get\s*\(\s*([^\s(),]+)\s*(?:,\s*([^\s(),]+)\s*)?\)")
_LEN = re.compile(r"len\s*\(")


def operator_instead(text: str, offset: int) -> str:
    """What to write instead of another language's operator at that place; ``""`` if unknown."""
    rest = text[offset:].lstrip()
    for found, instead in _OPERATORS:
        if found.match(rest):
            return instead
    if _NOT.search(text[:offset]):
        return "CEL has ! for not"
    for amount in _AMOUNT.finditer(text):
        if amount.start() <= offset <= amount.end():
            return f"{amount[0]} is no number: write it out, or compare quantities, quantity('{amount[0]}')"
    return ""


def function_instead(text: str, offset: int) -> str:
    """What to write instead of another language's function at that place; ``""`` if unknown."""
    if got := _GET.match(text, offset):
        default = got[2] or "''"
        return f"write labels[?{got[1]}].orValue({default}) for labels.{got[0]}"
    return "CEL has size(...) for len(...)" if _LEN.match(text, offset) else ""
