"""The HTTP server of the page: HTML for people, JSON under ``/api``; on loopback, or with a token."""

import asyncio
import contextlib
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.resources import files
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from bayplan.web.api import Lines, Wanted, detail
from bayplan.web.decision import decision_page
from bayplan.web.door import Door
from bayplan.web.frame import frame, heading, notice
from bayplan.web.heatmap import HeatQuery, cluster_page
from bayplan.web.live import Live
from bayplan.web.markup import Html
from bayplan.web.nodes import NodeQuery
from bayplan.web.page import PAGE_LINES, list_page
from bayplan.web.series import Series
from bayplan.web.shadow import shadow_page
from bayplan.web.sight import Sight
from bayplan.web.state import state_page
from bayplan.web.unknown import why_unknown

_DECISION = re.compile(r"/decisions/(\d{1,18})")
_WHY = re.compile(r"/api/why/([^/]+)/([^/]+)")
_LIMIT = 1000
_STATIC = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_Query = TypeVar("_Query", bound=msgspec.Struct)
Work = Callable[[], web.Response]
"""Renders a response, in the page's own thread."""


class PageApp:
    """Answers the requests to the page. Must be made in the event loop that serves it."""

    def __init__(self, sight: Sight, *, token_file: Path | None = None) -> None:
        self._sight = sight
        self._door = Door(token_file)
        self._lines = Lines()
        self.live = Live()
        # One thread renders all pages, so that the event loop never waits for one.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="page")
        self._series = Series(later=self._have_done)
        sight.journal.on_entry += [self._series.add, self.live.add]

    def close(self) -> None:
        """End all streams, and observe no more decisions."""
        for told in (self._series.add, self.live.add):
            self._sight.journal.on_entry.remove(told)
        self.live.end()
        self._thread.shutdown(wait=False)

    def _have_done(self, work: Callable[[], None]) -> None:
        # A policy thread may add an entry after the page is closed.
        with contextlib.suppress(RuntimeError):
            self._thread.submit(work)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        if refused := self._refused(request):
            return refused
        if request.path == "/api/events":
            return await self.live.stream(request, _HEADERS)
        if request.path.startswith("/static/"):
            return _static(request.path.removeprefix("/static/"))
        work = self._route(request.path, request.query)
        if isinstance(work, web.Response):
            return work
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _refused(self, request: web.BaseRequest) -> web.Response | None:
        if request.method not in ("GET", "HEAD"):
            return _said(405, f"want GET, got {request.method}", headers={"Allow": "GET, HEAD"})
        if refusal := self._door.refusal(request):
            return _said(refusal.status, refusal.text, headers=refusal.headers)
        return _said(503, "the server is shutting down") if self.live.ended else None

    def _route(self, path: str, query: Mapping[str, str]) -> web.Response | Work:
        """The work that answers the path; state that only the event loop may read is captured here."""
        if path.startswith("/api/"):
            return self._api(path, query)
        pages = {"/": self._list, "/cluster": self._cluster, "/shadow": self._shadow, "/state": self._state}
        if path in pages:
            return pages[path](query)
        if found := _DECISION.fullmatch(path):
            return partial(self._decision, int(found[1]), _lenient(query, NodeQuery))
        return self._nothing(f"There is nothing at {path}.")

    def _api(self, path: str, query: Mapping[str, str]) -> web.Response | Work:
        if path == "/api/decisions":
            return self._decisions(query)
        if path == "/api/state":
            return _json({"version": self._sight.version, **self._sight.facts()})
        if path == "/api/shadow":
            return _json(self._sight.shadow())
        if found := _DECISION.fullmatch(path.removeprefix("/api")):
            return partial(self._detail, int(found[1]))
        if found := _WHY.fullmatch(path):
            return self._why(f"{found[1]}/{found[2]}", query)
        return _said(404, f"nothing at {path!r}")

    def _list(self, query: Mapping[str, str]) -> Work:
        sight, policies, problems = self._sight, self._sight.policies(), self._sight.problems()
        stands_by = sight.stands_by()
        wanted = msgspec.structs.replace(_lenient(query, Wanted), limit=PAGE_LINES)

        def make() -> web.Response:
            entries, moments = sight.journal.entries(), self._series.moments(time.time())
            lines, kept = self._lines.wanted(entries, wanted), len(entries)
            return _html(
                list_page(
                    lines,
                    wanted,
                    kept=kept,
                    policies=policies,
                    moments=moments,
                    problems=problems,
                    stands_by=stands_by,
                    schedules=sight.to_wire is None,
                    version=sight.version,
                )
            )

        return make

    def _cluster(self, query: Mapping[str, str]) -> Work:
        sight, cluster, columns = self._sight, self._sight.cluster(), self._sight.columns()
        asked = _lenient(query, HeatQuery)
        problem = str(sight.facts().get("view", {}).get("problem", ""))

        def make() -> web.Response:
            entries = sight.journal.entries()
            return _html(
                cluster_page(
                    cluster,
                    asked,
                    declared=columns,
                    entries=entries,
                    problem=problem,
                    version=sight.version,
                )
            )

        return make

    def _shadow(self, query: Mapping[str, str]) -> Work:
        del query
        report, version = self._sight.shadow(), self._sight.version
        return lambda: _html(shadow_page(report, now=time.time(), version=version))

    def _state(self, query: Mapping[str, str]) -> Work:
        del query
        facts, version = self._sight.facts(), self._sight.version
        return lambda: _html(state_page(facts, version=version))

    def _decision(self, number: int, query: NodeQuery) -> web.Response:
        entry = self._sight.journal.find(number)
        if entry is None:
            return self._nothing(f"Decision {number} is not in the journal any more.")
        line, version = self._lines.of(entry), self._sight.version
        return _html(decision_page(entry, line, query, wire=self._sight.told(entry), version=version))

    def _decisions(self, query: Mapping[str, str]) -> web.Response | Work:
        try:
            wanted = msgspec.convert(_known(query, Wanted), Wanted, strict=False)
        except msgspec.ValidationError as error:
            return _said(400, str(error))
        wanted = msgspec.structs.replace(wanted, limit=max(1, min(wanted.limit, _LIMIT)))
        return lambda: _json(self._lines.wanted(self._sight.journal.entries(), wanted))

    def _detail(self, number: int) -> web.Response:
        entry = self._sight.journal.find(number)
        if entry is None:
            return _said(404, f"decision {number} is not in the journal any more")
        return _json(detail(entry, self._sight.told(entry)))

    def _why(self, key: str, query: Mapping[str, str]) -> web.Response | Work:
        try:
            weight = float(query.get("weight", "1"))
        except ValueError:
            weight = float("nan")
        if not isfinite(weight):
            return _said(400, "weight must be a number")
        cluster = self._sight.cluster()

        def make() -> web.Response:
            found = self._sight.why(key, cluster, weight=weight)
            if found is None:
                why_not = why_unknown(self._sight, key, cluster)
                return _said(404, f"no decision about pod {key} in the journal{why_not}")
            return _json(found)

        return make

    def _nothing(self, text: str) -> web.Response:
        page = frame("Not found", heading("Not found"), notice(text), here="", version=self._sight.version)
        return _html(page, status=404)


def _known(query: Mapping[str, str], kind: type[_Query]) -> dict[str, str]:
    return {name: query[name] for name in kind.__struct_fields__ if name in query}


def _lenient(query: Mapping[str, str], kind: type[_Query]) -> _Query:
    """Decode the query; unreadable parameters are ignored, since people edit URLs."""
    found = kind()
    for name, text in _known(query, kind).items():
        try:
            one = msgspec.convert({name: text}, kind, strict=False)
        except msgspec.ValidationError:
            continue
        found = msgspec.structs.replace(found, **{name: getattr(one, name)})
    return found


def _static(name: str) -> web.Response:
    if name not in _STATIC:
        return _said(404, f"no file {name!r}")
    body = files("bayplan.web").joinpath("static", name).read_bytes()
    return web.Response(body=body, content_type=_STATIC[name], charset="utf-8", headers=_HEADERS)


def _html(page: Html, *, status: int = 200) -> web.Response:
    # JSON may have lone surrogates, which cannot be encoded in a page.
    body = page.encode(errors="replace")
    return web.Response(status=status, body=body, content_type="text/html", charset="utf-8", headers=_HEADERS)


def _json(data: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(data), content_type="application/json", headers=_HEADERS)


def _said(status: int, text: str, *, headers: Mapping[str, str] | None = None) -> web.Response:
    body = msgspec.json.encode({"Error": text})
    both = {**_HEADERS, **(headers or {})}
    return web.Response(status=status, body=body, content_type="application/json", headers=both)
