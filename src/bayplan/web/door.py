"""Access control of the page: callers with the token, or without a token callers on this machine."""

import base64
import binascii
import hmac
import ipaddress
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

log = logging.getLogger(__name__)

_ASK = {"WWW-Authenticate": 'Basic realm="Bayplan", charset="UTF-8"'}


@dataclass(frozen=True)
class Refusal:
    """Why a caller is refused."""

    status: int
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)


class Door:
    """Checks each request; the token's file is read each time, so that it can be replaced."""

    def __init__(self, token_file: Path | None) -> None:
        self._token_file = token_file
        self._problem = ""

    def refusal(self, request: web.BaseRequest) -> Refusal | None:
        """Why the request is refused; ``None`` if it is allowed."""
        if self._token_file is None:
            # Against DNS rebinding: a foreign page whose name resolves to 127.0.0.1 must not read ours.
            if _is_here(request.headers.get("Host", "")):
                return None
            return Refusal(403, "without a token this page is for 127.0.0.1 and localhost alone")
        # The API server's proxy does not forward `Authorization`: through it the token has a header of its
        # own.
        own = request.headers.get("Bayplan-Token", "")
        if self._knows(f"Bearer {own}" if own else request.headers.get("Authorization", "")):
            return None
        text = "send the token: Authorization: Bearer TOKEN, or as the password in a browser"
        return Refusal(401, text, _ASK)

    def _knows(self, header: str) -> bool:
        kind, _, sent = header.partition(" ")
        if kind.lower() == "basic":
            sent = _password(sent)
        elif kind.lower() != "bearer":
            return False
        wanted = self._wanted()
        # A header may have bytes that are no UTF-8.
        given = sent.strip().encode(errors="surrogateescape")
        return bool(wanted) and hmac.compare_digest(given, wanted.encode())

    def _wanted(self) -> str:
        """The token; empty if its file has none, which is logged once and not told to the caller."""
        wanted, problem = "", "there is no token in it"
        try:
            wanted = self._token_file.read_text().strip() if self._token_file else ""
        except (OSError, UnicodeDecodeError) as error:
            problem = str(getattr(error, "strerror", None) or error)
        problem = "" if wanted else problem
        if problem and problem != self._problem:
            log.warning("page.tokenFile: %s: %s; nobody is let in", self._token_file, problem)
        self._problem = problem
        return wanted


def _is_here(host: str) -> bool:
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    name = name.strip("[]").lower()
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def _password(sent: str) -> str:
    """The password of a browser's login; the user name is ignored."""
    try:
        return base64.b64decode(sent, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return ""
