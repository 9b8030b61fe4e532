"""Servers leave, come, die, go blind, stand still, their Lease is deleted: never does a second one bind."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from random import Random

import pytest

from tests.state.lease_world import DURATION, LOOK, MARGIN, Turns, World, settled

ROUNDS, ACTIONS, SERVERS = 80, 250, 3
KILLED = 0.98
IN_DOUBT = 0.1
BLIND = "cut off from the API server for 61 s"
# Who deletes it again before the last one is over, or what has just been made, is not waited for.
DELETED_AGAIN_SECONDS, MADE_SECONDS = 2 * DURATION, DURATION
PAUSES, CALM = (*[LOOK] * 6, 0.5, 1.0, 1.0, 2.5, 6.0, 16.0), (LOOK, 1.0, 2.5, 2.5, 4.0)


@dataclass
class Server:
    """One server; where it was told to end, what it waits for before it does."""

    turns: Turns
    leaving: "asyncio.Task[None] | None" = None
    terms: int = 0
    """How many there were when we last looked."""


@dataclass
class Story:
    """What happens in one world, by the dice."""

    world: World
    dice: Random
    stack: ExitStack
    calm: bool
    """Few end, and time passes evenly: a blind one leaves the Lease after a while only."""
    servers: list[Server] = field(default_factory=list)
    binds: dict[str, tuple[float, Server]] = field(default_factory=dict)
    """By the name of the server, when its bind ends: also that of a server which was killed."""
    terms: list[str] = field(default_factory=list)
    made: int = 0
    retreats: int = 0
    """How often one that was blind, and not about to end, gave the Lease up."""
    given_up: int = 0
    deleted: int = 0
    """How often somebody deleted the Lease."""
    made_anew: int = 0
    quiet_until: float = 0.0
    """Nobody deletes it before."""

    def start(self) -> None:
        """One more server, under a name of its own."""
        turns = self.world.server(f"s{self.made}")
        self.made += 1
        self.servers.append(Server(self.stack.enter_context(turns.running())))

    async def act(self) -> None:
        """Something happens to somebody; whoever has ended is replaced."""
        await self.replace_ended()
        promised = {each.turns.writer.identity for each in self.servers if each.turns.writer.succession.begun}
        await self.happen(self.dice.choice(self.servers), self.dice.random())
        await settled()
        self.check()
        self.check_the_blind(promised)

    async def replace_ended(self) -> None:
        """Who has nothing to wait for any more gives the Lease back and ends; another one starts."""
        for each in self.servers:
            if each.leaving is not None and each.leaving.done() and not each.turns.binding:
                each.turns.kill()
                await each.turns.writer.close(release=not each.turns.unsettled)
                await settled()
        self.servers = [each for each in self.servers if not each.turns.ended]
        while len(self.servers) < SERVERS:
            self.start()

    async def happen(self, server: Server, does: float) -> None:
        """One of the things that may happen."""
        if does < 0.55:
            # Those who are not among them stand still.
            moving = self.dice.sample(self.servers, self.dice.randint(1, len(self.servers)))
            await asyncio.gather(*(each.turns.step() for each in moving))
        elif does < 0.75:
            self.pass_time(self.dice.choice(CALM if self.calm else PAUSES))
        elif does < 0.85:
            self.bind_or_delete(server, does)
        elif does < 0.88:
            for each in self.servers:
                await each.turns.ask()
        elif does < 0.935:
            self.look(server, does)
        elif self.calm and self.dice.random() < 0.9:
            return
        elif does < KILLED and server.leaving is None:
            server.turns.quiet = self.dice.random() < 0.5
            server.leaving = await server.turns.leave()
        elif does > KILLED:
            server.turns.kill()

    def look(self, server: Server, does: float) -> None:
        """Somebody loses sight of the cluster or has it again, or hears what became of binds."""
        if does < 0.89:
            server.turns.blind = BLIND
        elif does < 0.91:
            for each in self.servers:
                each.turns.blind = BLIND if each.turns.writer.holds else each.turns.blind
        elif does < 0.925:
            server.turns.blind = ""
        else:
            for each in self.servers:
                each.turns.unsettled = 0

    def bind_or_delete(self, server: Server, does: float) -> None:
        """A bind begins; now and then it is the Lease that somebody lays hands on."""
        if does < 0.84:
            self.bind(server)
        else:
            self.delete()

    def bind(self, server: Server) -> None:
        """A bind begins, where it may; it takes what a bind may take, and no longer."""
        name = server.turns.writer.identity
        if name not in self.binds and not server.turns.writer.problem():
            self.binds[name] = (self.world.now + self.dice.random() * MARGIN, server)
            server.turns.binding = 1

    def delete(self) -> None:
        """Somebody deletes the Lease, whoever holds it."""
        leases, now = self.world.leases, self.world.now
        if leases.made > self.made_anew:
            self.made_anew, self.quiet_until = leases.made, max(self.quiet_until, now + MADE_SECONDS)
        if now >= self.quiet_until and leases.stored is not None:
            leases.delete()
            self.deleted, self.quiet_until = self.deleted + 1, now + DELETED_AGAIN_SECONDS

    def pass_time(self, seconds: float) -> None:
        """The clock moves; binds end when it is their time."""
        self.world.now += seconds
        for name, (until, server) in list(self.binds.items()):
            if self.world.now >= until:
                del self.binds[name]
                server.turns.binding = 0
                server.turns.unsettled = int(self.dice.random() < IN_DOUBT)

    def check(self) -> None:
        """One holds it at most, and none while another one's bind may land."""
        holders = {each.turns.writer.identity for each in self.servers if each.turns.writer.holds}
        assert len(holders | set(self.binds)) <= 1
        self.terms += holders - set(self.terms[-1:])

    def check_the_blind(self, promised: set[str]) -> None:
        """A blind one takes it from nobody; and who has a bind in doubt does not give it up."""
        for each in self.servers:
            turns, writer = each.turns, each.turns.writer
            if writer.terms > each.terms:
                assert not turns.blind or writer.identity in promised
            each.terms = writer.terms
            given = writer.identity in self.world.leases.given_up[self.given_up :]
            if given and not turns.ended:
                assert not turns.unsettled
                self.retreats += bool(turns.blind) and each.leaving is None
        self.given_up = len(self.world.leases.given_up)


@asynccontextmanager
async def a_story(seed: int) -> AsyncIterator[Story]:
    """A world with three servers, of which every other one is calm."""
    dice = Random(seed)
    world = World()
    world.leases.dice = dice
    with ExitStack() as stack:
        yield Story(world, dice, stack, calm=bool(seed % 2))


@pytest.mark.parametrize("seed", range(ROUNDS))
async def test_never_do_two_bind(seed: int) -> None:
    async with a_story(seed) as story:
        for _ in range(ACTIONS):
            await story.act()


async def test_the_stories_are_about_what_they_say() -> None:
    terms = handed_over = retreats = deleted = 0
    for seed in range(20):
        async with a_story(seed) as story:
            for _ in range(ACTIONS):
                await story.act()
            terms += len(story.terms)
            handed_over += story.world.leases.handed_over
            retreats += story.retreats
            deleted += story.deleted

    assert terms > 60
    assert handed_over > 10
    assert retreats > 5
    assert deleted > 10
