"""Asks a running server to verify its view, for the command line."""

import urllib.error
import urllib.request

import msgspec

from bayplan.state.verify import Verification

_TIMEOUT_SECONDS = 120.0
_VERIFICATION = msgspec.json.Decoder(Verification)


class AskError(Exception):
    """The server did not answer, or could not."""


def ask_verification(server: str) -> Verification:
    """Have the server at this ops address verify its view."""
    url = f"{server.rstrip('/')}/verify"
    if not url.startswith(("http://", "https://")):
        raise AskError(f"{server!r} is no address, such as http://127.0.0.1:8889")
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response:  # noqa: S310 - checked above
            return _VERIFICATION.decode(response.read())
    except urllib.error.HTTPError as error:
        said = _said(error.read())
        if "html" in error.headers.get("Content-Type", ""):
            said = "this is a page for people; the ops address is another one (--ops-listen)"
        raise AskError(f"{url}: {said[:300]}") from error
    except (OSError, msgspec.MsgspecError) as error:
        problem = error.reason if isinstance(error, urllib.error.URLError) else error
        raise AskError(f"{url}: {problem}; is Bayplan running there?") from error


def _said(body: bytes) -> str:
    """The text of an error; ours are ``{"Error": "..."}``."""
    try:
        return str(msgspec.json.decode(body, type=dict[str, str])["Error"])
    except (msgspec.MsgspecError, KeyError):
        return body.decode(errors="replace")
