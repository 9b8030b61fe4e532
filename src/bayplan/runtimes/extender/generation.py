"""What a reload replaces, as one thing: policies, their sources, and how answers are given.

A request takes the generation that is there when it comes and stays with it to the end.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from bayplan.authoring.editions import Edition, current_edition
from bayplan.recording.lines import Configuration
from bayplan.runtimes.extender.verbs import Verbs
from bayplan.runtimes.workers import Workers
from bayplan.snapshot.sources import Readings
from bayplan.state.sources.book import Sources


@dataclass
class Generation:
    """One set of policies at work."""

    number: int
    verbs: Verbs
    sources: Sources
    told: Configuration = field(default_factory=Configuration)
    """How a recording tells of it."""
    edition: Edition = field(default_factory=current_edition)
    """What was imported for it."""
    _polling: "asyncio.Task[None] | None" = None
    _users: int = 0
    _unused: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._unused.set()

    @property
    def shadows(self) -> set[str]:
        """The policies that change nothing, and can be left out without a difference."""
        return {policy.name for policy in self.verbs.policies if policy.shadow}

    @contextlib.contextmanager
    def used(self) -> Iterator["Generation"]:
        """It is needed while the block runs, and does not end before."""
        self._users += 1
        self._unused.clear()
        try:
            yield self
        finally:
            self._users -= 1
            if not self._users:
                self._unused.set()

    def start(self) -> None:
        """Begin to ask its sources."""
        self._polling = asyncio.create_task(self.sources.run())

    async def readings(self, verb: str, body: bytes, workers: Workers) -> Readings:
        """What sources say. Those that are asked about a pod are waited for here, and hold no thread."""
        if not self.sources.asked:
            return self.sources.current
        # In their threads, since asyncio's are shared with logins that may hang.
        pod, names, wanted = await workers.run(lambda _: self.verbs.about(verb, body))
        return await self.sources.about(pod, names, wanted=wanted)

    def let_go(self) -> None:
        """Do not wait for those that use it."""
        self._unused.set()

    async def end(self) -> None:
        """Poll its sources no more; when its last user is gone, close them and forget what was imported."""
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)
        await self._unused.wait()
        await self.sources.close()
        self.edition.forget()
