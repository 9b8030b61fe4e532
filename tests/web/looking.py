"""The page behind a real socket, in the test's own event loop."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

import bayplan
from bayplan.engine.journal import Journal
from bayplan.engine.ranking import ToWire
from bayplan.runtimes.connection import HttpServer
from bayplan.runtimes.limits import Limits
from bayplan.runtimes.listener import Listener
from bayplan.snapshot.cluster import Snapshot
from bayplan.web.app import PageApp
from bayplan.web.sight import Sight
from bayplan.wire.scale import to_wire
from tests.web.decided import POLICIES, PRICE
from tests.web.shadowed import busy

SECRET = bayplan.NodeAnnotation("example.com/secret")
FACTS: dict[str, dict[str, Any]] = {
    "policies": {"generation": 7, "names": ["capacity"], "observe": False, "reloadProblem": ""},
    "view": {"ageSeconds": 0.5, "problem": "", "nodes": 12, "pods": None},
    "sources": {
        "usage": {"problem": "broken: 3 failures in a row", "breaker": "open", "ageSeconds": float("inf")}
    },
    "ledger": {"assumed": 1, "unsettled": 0, "mayBind": True, "whyNotBind": ""},
    "certificates": {"serverEnds": "2027-01-01T00:00:00+00:00"},
}


@dataclass
class Looking:
    """Somebody who looks at the page."""

    app: PageApp
    address: str
    session: aiohttp.ClientSession

    async def get(
        self, path: str, *, headers: Mapping[str, str] | None = None
    ) -> tuple[int, str, Mapping[str, str]]:
        """Status, text and headers of an answer."""
        async with self.session.get(self.address + path, headers=headers) as response:
            return response.status, await response.text(), response.headers


def sight_of(journal: Journal, cluster: Snapshot | None, to_wire: ToWire | None = to_wire) -> Sight:
    """What a server would show of these."""
    return Sight(
        journal=journal,
        cluster=lambda: cluster,
        facts=lambda: FACTS,
        to_wire=to_wire,
        version="1.2.3",
        columns=lambda: [PRICE, SECRET],
        policies=lambda: [policy.name for policy in POLICIES],
        schedulers=lambda: ["bayplan-scheduler"],
        shadow=busy,
    )


@contextlib.asynccontextmanager
async def looking(
    journal: Journal,
    cluster: Snapshot | None = None,
    *,
    token_file: Path | None = None,
    to_wire: ToWire | None = to_wire,
) -> AsyncIterator[Looking]:
    """The page while the block runs."""
    app = PageApp(sight_of(journal, cluster, to_wire), token_file=token_file)
    listener = Listener(HttpServer(app.handle, Limits()), ("127.0.0.1", 0), flag="--page-listen")
    await listener.listen(None)
    try:
        async with aiohttp.ClientSession() as session:
            yield Looking(app, "http://{}:{}".format(*listener.address), session)
    finally:
        app.close()
        await listener.close()
