"""What kube-scheduler asks next: after a filter the same bytes once more, with the names that passed."""

_NAMES = b'"NodeNames":['
_COMMA = ord(",")


def followup(body: bytes, passed: str) -> bytes:
    """The prioritize that follows a filter which was read without an error; ``b""`` where nobody knows.

    ``passed`` are the names as JSON has them, with commas in between.
    """
    start = body.find(_NAMES) + len(_NAMES)
    # In a text the quotes would be escaped, so this is a key. Nothing but its list and the end of the whole
    # comes after it: so it is the key of the request itself, whatever else is in there. Looked for from the
    # front, where the pod is: names are long, and looking back through them took twice as long. After a
    # comma, as kube-scheduler has it: it is no end of another key, whose first quotes are escaped.
    if start <= len(_NAMES) or not body.endswith(b"]}") or body.count(b"]", start) != 1:
        return b""
    if body[start - len(_NAMES) - 1] != _COMMA:
        return b""
    return b"".join((body[:start], passed.encode(), b"]}"))
