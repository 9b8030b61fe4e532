"""Predicts the prioritize request after a filter: the same bytes, with only the names that passed."""

_NAMES = b'"NodeNames":['
_END = b"]}"
_COMMA = ord(",")


def is_followup(asked: bytes, body: bytes, passed: str) -> bool:
    """Whether ``asked`` is the prioritize request that follows the filter ``body``.

    ``passed`` are the names in JSON, with commas in between, all of them ASCII. Most other requests differ in
    length, which is seen without building the expected one.
    """
    if len(asked) != body.find(_NAMES) + len(_NAMES) + len(passed) + len(_END):
        return False
    return asked == followup(body, passed)


def followup(body: bytes, passed: str) -> bytes:
    """The bytes of the prioritize request that follows a valid filter; ``b""`` if they cannot be predicted.

    ``passed`` are the names in JSON, with commas in between.
    """
    start = body.find(_NAMES) + len(_NAMES)
    # `_NAMES` is a key: inside a string its quotes would be escaped. Only the request's closing brace follows
    # its list, so the key belongs to the request itself, not to an object in it. The search runs from the
    # front, where the pod is: backwards, through the long list of names, it took twice as long. The comma
    # before the key, as kube-scheduler writes it, rules out the end of a longer key with escaped quotes.
    if start <= len(_NAMES) or not body.endswith(_END) or body.count(b"]", start) != 1:
        return b""
    if body[start - len(_NAMES) - 1] != _COMMA:
        return b""
    return b"".join((body[:start], passed.encode(), _END))
