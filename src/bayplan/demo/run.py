"""The demo from start to end: a server, a cluster in memory, a stream of pods."""

import asyncio
import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import aiohttp

from bayplan import __version__
from bayplan.authoring.load import definitions
from bayplan.demo import policies as demo_policies
from bayplan.demo.caller import Caller, MemoryBinder, Placement
from bayplan.demo.cluster import make_nodes, make_pods
from bayplan.runtimes.extender.options import Options
from bayplan.runtimes.extender.serve import Server
from bayplan.runtimes.listener import Address, written
from bayplan.snapshot.cluster import Snapshot
from bayplan.state.view import FixedView

_PAUSE_SECONDS = 0.7


class Audience(Protocol):
    """Gets the events of the demo."""

    def started(self, url: str, cluster: Snapshot, *, page_url: str) -> None:
        """The server has started: its address, and that of its page."""
        ...

    def placed(self, placement: Placement) -> None:
        """A pod was placed or refused."""
        ...

    def finished(self, cluster: Snapshot, ops_url: str, *, serving: bool) -> None:
        """All pods were tried; the server may go on."""
        ...


@dataclass(frozen=True)
class Demo:
    """What to show."""

    pods: int
    listen: Address
    ops_listen: Address
    page_listen: Address
    once: bool

    async def run(self, audience: Audience, *, on_server: Callable[[Server], None]) -> None:
        """Serve, place the pods, and serve on until a signal unless ``once``."""
        policies = [definition.make(name="demo") for definition in definitions(demo_policies)]
        snapshot = Snapshot.build(make_nodes(), [])
        server = Server(
            Options(
                policies=policies,
                listen=self.listen,
                ops_listen=self.ops_listen,
                page_listen=self.page_listen,
                snapshot=snapshot,
                version=__version__,
            )
        )
        pods = list(make_pods(self.pods))
        view = FixedView(snapshot)
        server.view = server.app.view = view
        binder = MemoryBinder(view, {pod.uid: pod for pod in pods})
        server.app.binder = binder
        on_server(server)
        async with server.running():
            url = f"http://{written(server.listener.address)}"
            page_url = f"http://{written(server.page_listener.address)}/" if server.page_listener else ""
            audience.started(url, snapshot, page_url=page_url)
            async with aiohttp.ClientSession() as session:
                caller = Caller(session, url)
                for pod in pods:
                    audience.placed(await caller.schedule(pod, server.view.current or snapshot))
                ops_url = f"http://{written(server.ops_listener.address)}" if server.ops_listener else ""
                audience.finished(server.view.current or snapshot, ops_url, serving=not self.once)
                if not self.once:
                    await self._go_on(server, caller, binder)

    async def _go_on(self, server: Server, caller: Caller, binder: MemoryBinder) -> None:
        """Add a pod and end an old one from time to time until a signal, so that the page has news."""
        stopped = asyncio.create_task(server.stopped())
        for pod in itertools.islice(make_pods(sys.maxsize), self.pods, None):
            await asyncio.wait([stopped], timeout=_PAUSE_SECONDS)
            if stopped.done():
                return
            binder.expect(pod)
            await caller.schedule(pod, binder.cluster)
            binder.end_oldest(keep=self.pods)


def run_demo(demo: Demo, audience: Audience) -> None:
    """Run the demo in an event loop of its own; Ctrl-C ends it."""

    async def until_signal() -> None:
        await demo.run(audience, on_server=Server.stop_on_signals)

    asyncio.run(until_signal())
