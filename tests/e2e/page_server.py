"""A server with 5,000 nodes and 1,000 decisions, for a browser to look at; in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from bayplan.engine.journal import Journal
from bayplan.runtimes.connection import HttpServer
from bayplan.runtimes.fast_loop import run_in_fast_loop
from bayplan.runtimes.limits import Limits
from bayplan.runtimes.listener import Listener
from bayplan.snapshot.cluster import Snapshot
from bayplan.web.app import PageApp
from tests.web.decided import cluster_of, written
from tests.web.looking import sight_of

NODES, DECISIONS = 5000, 1000


class PageServer:
    """The page of a large cluster."""

    def __init__(
        self, *, nodes: int = NODES, decisions: int = DECISIONS, token_file: Path | None = None
    ) -> None:
        self.cluster: Snapshot | None = cluster_of(nodes)
        self.journal = Journal(max_bytes=512 * 1024 * 1024)
        self.decide(pods=decisions // 2, namespace="shop")
        self._token_file = token_file
        self.address = ""
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None

    def decide(self, *, pods: int = 1, namespace: str = "fresh") -> None:
        """Decide about more pods."""
        assert self.cluster is not None
        written(self.journal, self.cluster, pods=pods, namespace=namespace)

    @contextlib.contextmanager
    def hanging(self) -> Iterator[None]:
        """Accept connections, as the kernel does, but say nothing while the block runs."""
        assert self._loop is not None
        hangs, goes_on = threading.Event(), threading.Event()

        def hang() -> None:
            hangs.set()
            goes_on.wait(60)

        self._loop.call_soon_threadsafe(hang)
        assert hangs.wait(20)
        try:
            yield
        finally:
            goes_on.set()

    @contextlib.contextmanager
    def running(self) -> Iterator[PageServer]:
        """Serve while the block runs."""
        thread = threading.Thread(target=lambda: run_in_fast_loop(self._serve))
        thread.start()
        try:
            assert self._ready.wait(20), "the page did not come up"
            yield self
        finally:
            assert self._loop is not None
            assert self._stop is not None
            self._loop.call_soon_threadsafe(self._stop.set)
            thread.join(20)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        sight = replace(sight_of(self.journal, self.cluster), cluster=lambda: self.cluster)
        app = PageApp(sight, token_file=self._token_file)
        listener = Listener(HttpServer(app.handle, Limits()), ("127.0.0.1", 0), flag="--page-listen")
        await listener.listen(None)
        self.address = "http://{}:{}".format(*listener.address)
        self._ready.set()
        await self._stop.wait()
        app.close()
        await listener.close()
