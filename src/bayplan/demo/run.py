"""The demo from start to end: a server, a cluster in memory, a stream of pods."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import aiohttp

from bayplan import __version__
from bayplan.authoring.load import definitions
from bayplan.demo import policies as demo_policies
from bayplan.demo.caller import Caller, MemoryBinder, Placement
from bayplan.demo.cluster import make_nodes, make_pods
from bayplan.runtimes.extender.listener import Address
from bayplan.runtimes.extender.serve import Options, Server
from bayplan.snapshot.cluster import Snapshot
from bayplan.state.view import FixedView


class Audience(Protocol):
    """Whoever watches the demo."""

    def started(self, url: str, cluster: Snapshot) -> None:
        """The server answers at this address."""
        ...

    def placed(self, placement: Placement) -> None:
        """One more pod has its node, or its reasons."""
        ...

    def finished(self, cluster: Snapshot, ops_url: str, *, serving: bool) -> None:
        """All pods were tried; the server goes on or not."""
        ...


@dataclass(frozen=True)
class Demo:
    """What to show."""

    pods: int
    listen: Address
    ops_listen: Address
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
                snapshot=snapshot,
                version=__version__,
            )
        )
        pods = list(make_pods(self.pods))
        view = FixedView(snapshot)
        server.view = server.app.view = view
        server.app.binder = MemoryBinder(view, {pod.uid: pod for pod in pods})
        on_server(server)
        async with server.running():
            url = "http://{}:{}".format(*server.listener.address)
            audience.started(url, snapshot)
            async with aiohttp.ClientSession() as session:
                caller = Caller(session, url)
                for pod in pods:
                    audience.placed(await caller.schedule(pod, server.view.current or snapshot))
            ops_url = "http://{}:{}".format(*server.ops_listener.address) if server.ops_listener else ""
            audience.finished(server.view.current or snapshot, ops_url, serving=not self.once)
            if not self.once:
                await server.stopped()


def run_demo(demo: Demo, audience: Audience) -> None:
    """Run the demo in an event loop of its own; Ctrl-C ends it."""

    async def until_signal() -> None:
        await demo.run(audience, on_server=Server.stop_on_signals)

    asyncio.run(until_signal())
