"""Asking all servers why a pod is where it is: the newest answer is the one to believe.

Each replica knows what it was asked itself, and kube-scheduler may have asked any of them.
"""

import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from bayplan.engine.why import Why
from bayplan.runtimes.extender.ask import AskError

TOKEN_HEADER = "Bayplan-Token"  # noqa: S105 - the name of a header
"""For callers whose ``Authorization`` is for somebody on the way, such as the API server."""

_TIMEOUT_SECONDS = 10.0
_AT_ONCE = 16
_WHY = msgspec.json.Decoder(Why)
NOTHING = "knows nothing about the pod"
_BUT = ", but it knows "
"""What is said by those who were asked, and never asked about the pod."""
_HINT = (
    "\nIs `bayplan serve` running there, and its page on? --server is the page's address"
    " (`page.listen`, http://127.0.0.1:8890 by default); --from-cluster looks for the pods of Bayplan."
)


class Other(msgspec.Struct, frozen=True, rename="camel"):
    """A server whose answer was not taken, and why."""

    server: str
    problem: str


class Reply(msgspec.Struct, frozen=True, rename="camel"):
    """The newest answer, who gave it, and the servers that gave none or an older one."""

    why: Why
    server: str
    others: list[Other]
    warnings: list[str] = []
    """What is wrong with the files, where files were asked."""


Said = Why | str
"""What one server said: why, or what kept it from saying so."""


def ask_why(servers: Sequence[str], key: str, *, weight: float, token: str = "") -> Reply:
    """Ask the servers at these addresses (their pages) about the pod ``namespace/name``."""
    for server in servers:
        if urlsplit(server).scheme not in ("http", "https") or not urlsplit(server).netloc:
            raise AskError(
                f"{server!r} is no address, such as http://127.0.0.1:8890: it begins with http:// or https://"
            )
    names = list(dict.fromkeys(server.rstrip("/") for server in servers))

    def ask(server: str) -> Said:
        return _ask(f"{server}{why_path(key)}?{urlencode({'weight': weight})}", token)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return newest(key, dict(zip(names, pool.map(ask, names), strict=True)), hint=_HINT)


def why_path(key: str) -> str:
    """Where a page answers about the pod."""
    return f"/api/why/{quote(key)}"


def newest(key: str, said: dict[str, Said], *, hint: str, who: str = "server") -> Reply:
    """The newest of the answers; `AskError` where there is none."""
    found = {server: why for server, why in said.items() if isinstance(why, Why)}
    problems = [Other(server, text) for server, text in said.items() if isinstance(text, str)]
    if not found:
        if any(each.problem.startswith(f"{NOTHING}{_BUT}") for each in problems):
            hint = "\nSay the namespace with -n."
        elif any(each.problem == NOTHING for each in problems):
            hint = (
                "\nThere may be no policy for it, kube-scheduler may not have asked yet, or it was long ago;"
                " is the namespace right (-n)?"
            )
        elif any(each.problem.startswith(NOTHING) for each in problems):
            # It has said why.
            hint = ""
        lines = "".join(f"\n  {each.server}: {each.problem}" for each in problems)
        raise AskError(f"no {who} can say why about pod {key}:{lines}{hint}")
    best = max(found, key=lambda server: found[server].at)
    older = [Other(server, f"older: {why.at}") for server, why in found.items() if server != best]
    # Why another one knows nothing is nobody's question where one knows.
    others = [Other(each.server, NOTHING) if each.problem.startswith(NOTHING) else each for each in problems]
    return Reply(found[best], best, older + others)


def understood(body: bytes) -> Said:
    """What a page has answered."""
    try:
        return _WHY.decode(body)
    except msgspec.MsgspecError as error:
        return f"not what `bayplan serve` answers: {error}"


def refused(status: int, text: str) -> str:
    """What it means that a page said no."""
    if status == 404 and "no decision" in text:
        said = _error(text)
        # Pods of that name that it knows in other namespaces.
        _, known, others = said.partition(", and about ")
        if known:
            return f"{NOTHING}{_BUT}{others.removesuffix(' there is')}"
        _, known, reason = said.partition(" in the journal: ")
        return NOTHING if not known or reason.startswith("nobody asked") else f"{NOTHING}: {reason}"
    if status == 401:
        return "it wants a token: give --token-file, the file that its page.tokenFile names"
    return f"status {status}: {text[:200]}"


def _error(text: str) -> str:
    """What an answer of a page has as its error; all of it where it is no such answer."""
    try:
        return str(msgspec.json.decode(text, type=dict[str, str]).get("Error", text))
    except msgspec.MsgspecError:
        return text


def read_token(path: Path | None) -> str:
    """The token in a file; ``""`` without a file."""
    if path is None:
        return ""
    try:
        return path.read_text().strip()
    except OSError as error:
        raise AskError(f"{path}: {error.strerror or error}") from error


class _Stay(urllib.request.HTTPRedirectHandler):
    """Goes nowhere else: a token is for one server."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _ask(url: str, token: str) -> Said:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - the scheme was checked
    # Proxies of the environment are for the internet.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Stay)
    try:
        with opener.open(request, timeout=_TIMEOUT_SECONDS) as response:
            return understood(response.read())
    except urllib.error.HTTPError as error:
        with error:
            return refused(error.code, error.read().decode(errors="replace"))
    except (OSError, HTTPException) as error:
        return f"no answer: {getattr(error, 'reason', None) or error or type(error).__name__}"
