"""Asks several servers why a pod is where it is, and takes the newest answer.

Each replica knows only its own decisions, and kube-scheduler may have asked any of them.
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
"""Carries the page's token for callers whose ``Authorization`` goes to a proxy, such as the API server."""

_TIMEOUT_SECONDS = 10.0
_AT_ONCE = 16
_WHY = msgspec.json.Decoder(Why)
NOTHING = "knows nothing about the pod"
_BUT = ", but it knows "
"""Follows `NOTHING` if the server knows pods of that name in other namespaces."""
_HINT = (
    "\nIs `bayplan serve` running there, and its page on? --server is the page's address"
    " (`page.listen`, http://127.0.0.1:8890 by default); --from-cluster looks for the pods of Bayplan."
)


class Other(msgspec.Struct, frozen=True, rename="camel"):
    """A server whose answer was not used, and why."""

    server: str
    problem: str


class Reply(msgspec.Struct, frozen=True, rename="camel"):
    """The newest answer, its server, and the servers that gave none or an older one."""

    why: Why
    server: str
    others: list[Other]
    warnings: list[str] = []
    """Problems in the journal files, if files were read."""


WhyOrProblem = Why | str
"""The answer of one server, or the text of its problem."""


def ask_why(servers: Sequence[str], key: str, *, weight: float, token: str = "") -> Reply:
    """Ask the servers at these addresses (their pages) about the pod ``namespace/name``."""
    for server in servers:
        if urlsplit(server).scheme not in ("http", "https") or not urlsplit(server).netloc:
            raise AskError(
                f"{server!r} is no address, such as http://127.0.0.1:8890: it begins with http:// or https://"
            )
    names = list(dict.fromkeys(server.rstrip("/") for server in servers))

    def ask(server: str) -> WhyOrProblem:
        return _ask(f"{server}{why_path(key)}?{urlencode({'weight': weight})}", token)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return newest(key, dict(zip(names, pool.map(ask, names), strict=True)), hint=_HINT)


def why_path(key: str) -> str:
    """The path at which a page answers about the pod."""
    return f"/api/why/{quote(key)}"


def newest(key: str, said: dict[str, WhyOrProblem], *, hint: str, who: str = "server") -> Reply:
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
            # The problem itself says why.
            hint = ""
        lines = "".join(f"\n  {each.server}: {each.problem}" for each in problems)
        raise AskError(f"no {who} can say why about pod {key}:{lines}{hint}")
    best = max(found, key=lambda server: found[server].at)
    older = [Other(server, f"older: {why.at}") for server, why in found.items() if server != best]
    # Once one server knows the pod, the reasons why others do not are of no interest.
    others = [Other(each.server, NOTHING) if each.problem.startswith(NOTHING) else each for each in problems]
    return Reply(found[best], best, older + others)


def understood(body: bytes) -> WhyOrProblem:
    """Decode the body of a page's answer."""
    try:
        return _WHY.decode(body)
    except msgspec.MsgspecError as error:
        return f"not what `bayplan serve` answers: {error}"


def refused(status: int, text: str) -> str:
    """The problem behind an error status of a page."""
    if status == 404 and "no decision" in text:
        said = _error(text)
        # Pods of that name in other namespaces.
        _, known, others = said.partition(", and about ")
        if known:
            return f"{NOTHING}{_BUT}{others.removesuffix(' there is')}"
        _, known, reason = said.partition(" in the journal: ")
        return NOTHING if not known or reason.startswith("nobody asked") else f"{NOTHING}: {reason}"
    if status == 401:
        return "it wants a token: give --token-file, the file that its page.tokenFile names"
    if status == 404 and text.startswith('{"Error":"no verb at '):
        return "this is the address that kube-scheduler calls (`extender.listen`), and not the page"
    if status == 404 and text.startswith('{"Error":"here are /livez'):
        return "this is the address for health and metrics (`opsListen`), and not the page"
    return f"status {status}: {text[:200]}"


def _error(text: str) -> str:
    """The ``Error`` of a page's answer; the whole text if it has none."""
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
    """Follows no redirects: the token is for one server."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _ask(url: str, token: str) -> WhyOrProblem:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - the scheme was checked
    # The environment's proxies are for the internet, not for a server of ours.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Stay)
    try:
        with opener.open(request, timeout=_TIMEOUT_SECONDS) as response:
            return understood(response.read())
    except urllib.error.HTTPError as error:
        with error:
            return refused(error.code, error.read().decode(errors="replace"))
    except (OSError, HTTPException) as error:
        return f"no answer: {getattr(error, 'reason', None) or error or type(error).__name__}"
