"""The demo goes on: a pod comes and an old one goes, until somebody says stop."""

import asyncio
from dataclasses import dataclass, field

import pytest

from bayplan.demo.caller import Placement
from bayplan.demo.run import Demo
from bayplan.runtimes.extender.serve import Server
from bayplan.snapshot.cluster import Snapshot

ANY = ("127.0.0.1", 0)
PODS = 6


@dataclass
class Quiet:
    """Somebody who watches and says nothing."""

    pages: list[str] = field(default_factory=list)
    placed_pods: int = 0

    def started(self, url: str, cluster: Snapshot, *, page_url: str) -> None:
        """Remember where the page is."""
        self.pages.append(page_url)

    def placed(self, placement: Placement) -> None:
        """Count."""
        self.placed_pods += 1

    def finished(self, cluster: Snapshot, ops_url: str, *, serving: bool) -> None:
        """It goes on."""


async def test_pods_come_and_go_until_somebody_says_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bayplan.demo.run._PAUSE_SECONDS", 0.001)
    servers: list[Server] = []
    quiet = Quiet()
    demo = asyncio.create_task(Demo(PODS, ANY, ANY, ANY, False).run(quiet, on_server=servers.append))

    async with asyncio.timeout(20):
        while not servers or len(servers[0].journal) < 20 * PODS:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
        seen = servers[0].view.current
        servers[0].stop()
        await demo

    assert quiet.placed_pods == PODS
    assert quiet.pages[0].startswith("http://127.0.0.1:")
    assert seen is not None
    assert 0 < len(seen.pods) <= PODS + 1
