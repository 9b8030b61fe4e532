"""An answer to somebody who is not kube-scheduler: a status, and what is wrong as JSON."""

import msgspec
from aiohttp import web


def plain(status: int, text: str, *, headers: dict[str, str] | None = None) -> web.Response:
    """An answer with that status, whose ``Error`` is the text."""
    body = msgspec.json.encode({"Error": text})
    return web.Response(status=status, body=body, content_type="application/json", headers=headers)
