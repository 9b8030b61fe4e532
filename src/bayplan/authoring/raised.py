"""The text of an exception out of somebody else's code, whatever that code does."""


def safe_text(error: BaseException, *, limit: int = 300) -> str:
    """On one line, and shortened. It is made by the user's code too, and may be long or broken."""
    try:
        text = " ".join(str(error).encode(errors="replace").decode().split())
    except Exception:
        return "(its text cannot be printed)"
    return text if len(text) <= limit else text[: limit - 1] + "…"
