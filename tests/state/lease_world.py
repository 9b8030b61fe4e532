"""A world of servers that want one Lease: a clock that is moved by hand, and an API server of a few lines."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from random import Random

from bayplan.client.errors import ApiError, ConnectError
from bayplan.client.lease import Lease, LeaseSpec
from bayplan.state.handover import Callers, Succession
from bayplan.state.notes import Notes
from bayplan.state.retreat import Sight
from bayplan.state.writer import LeaseOptions, Writer

DURATION, MARGIN = 15, 5.0
PERIOD = DURATION / 6
LOOK, PICK_UP = 0.1, 2
LOST = 0.05
KEPT = {"kept": "yes"}
"""What others have written on the Lease."""


class Leases:
    """Stands in for the API server's Lease: versions, conflicts, and silence on demand."""

    namespace, name = "default", "bayplan"

    def __init__(self) -> None:
        self.stored: Lease | None = Lease({"name": self.name, "labels": KEPT, "resourceVersion": "1"})
        """Nobody's, as whoever held it last has left it; ``None`` where somebody has deleted it."""
        self.silent_for: set[str] = set()
        self.version, self.made = 1, 0
        self.writes: list[str] = []
        self.handed_over = 0
        """How often a holder wrote another one into it."""
        self.given_up: list[str] = []
        """Who gave it up, to a successor or to nobody, in order."""
        self.dice: Random | None = None
        """Where it is there, requests take turns by chance, and answers get lost."""

    @property
    def notes(self) -> Notes:
        """What is said on it."""
        assert self.stored is not None
        return Notes.of(self.stored)

    async def read(self) -> Lease:
        await self._on_its_way()
        self._fail_if_silent("")
        if self.stored is None:
            raise ApiError(404, "not found", doing="reading")
        return self.stored

    async def create(self, spec: LeaseSpec) -> Lease:
        self._fail_if_silent(spec.holder_identity or "")
        if self.stored is not None:
            raise ApiError(409, "exists", doing="creating")
        self.made += 1
        # Versions of another object of the name go on where those of the first one ended.
        return self._store({"name": self.name, "labels": KEPT}, spec, version=self.version + 1)

    def delete(self) -> None:
        """Somebody deletes it, whoever holds it."""
        self.stored = None

    async def update(self, lease: Lease, spec: LeaseSpec) -> Lease:
        await self._on_its_way()
        self._fail_if_silent(spec.holder_identity or "")
        if self.stored is None:
            raise ApiError(404, "not found", doing="writing")
        if lease.metadata["resourceVersion"] != self.stored.metadata["resourceVersion"]:
            raise ApiError(409, "changed", doing="writing")
        fresh = self._store(lease.metadata, spec, version=int(lease.metadata["resourceVersion"]) + 1)
        if self.dice is not None and self.dice.random() < LOST:
            raise ConnectError("no answer in 5 s")
        await self._on_its_way()
        return fresh

    async def _on_its_way(self) -> None:
        for _ in range(self.dice.randrange(4) if self.dice is not None else 0):
            await asyncio.sleep(0)

    def _store(self, metadata: dict[str, object], spec: LeaseSpec, *, version: int) -> Lease:
        handed_over = spec.lease_duration_seconds == PICK_UP
        self.handed_over += handed_over
        if self.stored is not None and self.stored.holder and (handed_over or not spec.holder_identity):
            self.given_up.append(self.stored.holder)
        self.writes.append(spec.holder_identity or "nobody")
        self.version = version
        self.stored = Lease({**metadata, "resourceVersion": str(version)}, spec)
        return self.stored

    def _fail_if_silent(self, who: str) -> None:
        if who in self.silent_for or "everybody" in self.silent_for:
            raise ConnectError("no answer in 5 s")


class World:
    """A clock that is moved by hand, and servers that take their turns on it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.leases = Leases()
        self.in_view = asyncio.Event()
        self.in_view.set()

    def server(self, name: str) -> "Turns":
        return Turns(self, name)

    async def caught_up(self, since: float) -> None:
        await self.in_view.wait()


class Turns:
    """A Writer that runs one step at a time, and what it hears and knows of its own calls."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._turn = asyncio.Event()
        self._done = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._waiting: list[asyncio.Task[None]] = []
        self.able = True
        self.blind = ""
        self.quiet, self.binding, self.unsettled = True, 0, 0
        self.changes: list[bool] = []
        self.writer = Writer(
            world.leases,  # type: ignore[arg-type]
            LeaseOptions("bayplan", "default", name, DURATION, MARGIN),
            caught_up=world.caught_up,
            succession=Succession(able=lambda: self.able and not self.blind, on_change=self.changes.append),
            sight=Sight(lambda: self.blind, lambda: self.binding, lambda: self.unsettled),
            clock=lambda: world.now,
            sleep=self._wait,
        )

    @contextmanager
    def running(self) -> Iterator["Turns"]:
        self._task = asyncio.create_task(self._run())
        try:
            yield self
        finally:
            for each in (self._task, *self._waiting):
                each.cancel()

    async def _run(self) -> None:
        await self._wait(0)
        await self.writer.run()

    async def _wait(self, _: float) -> None:
        self._done.set()
        await self._turn.wait()
        self._turn.clear()

    @property
    def ended(self) -> bool:
        """Whether it does nothing any more."""
        return self._task is None or self._task.done()

    async def step(self) -> None:
        """Let it do what it does when it looks, and let its view catch up if it can."""
        assert self._task is not None
        if not self.ended:
            self._done.clear()
            self._turn.set()
            done = asyncio.create_task(self._done.wait())
            await asyncio.wait({done, self._task}, timeout=5, return_when=asyncio.FIRST_COMPLETED)
            assert done.done() or self._task.done(), "it is still at it"
            done.cancel()
        await settled()

    async def leave(self) -> "asyncio.Task[None]":
        """It is told to end, and looks at once; done when it does not wait for anybody any more."""
        callers = Callers(lambda: self.quiet, lambda: self.binding, lambda: self.unsettled)
        return await self._begun(self.writer.leave(callers))

    def kill(self) -> None:
        """It is gone, without a word."""
        assert self._task is not None
        self._task.cancel()

    async def ask(self, timeout_seconds: float = 60) -> "asyncio.Task[None]":
        """A call comes; done when it goes on."""
        return await self._begun(self.writer.succession.hold(timeout_seconds))

    async def _begun(self, work: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._waiting.append(task)
        await settled()
        return task


async def settled() -> None:
    """Everybody has done what can be done without time passing."""
    for _ in range(60):
        await asyncio.sleep(0)


async def passing(world: World, seconds: float, *servers: Turns, every: float = PERIOD) -> None:
    """Time passes in periods, and each server gets its turns."""
    for _ in range(round(seconds / every)):
        world.now += every
        for server in servers:
            await server.step()
