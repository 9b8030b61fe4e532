"""Error responses of the ops port and the page: a status, and the error's text as JSON."""

import msgspec
from aiohttp import web


def plain(status: int, text: str, *, headers: dict[str, str] | None = None) -> web.Response:
    """A response with that status, whose ``Error`` is the text."""
    body = msgspec.json.encode({"Error": text})
    return web.Response(status=status, body=body, content_type="application/json", headers=headers)
