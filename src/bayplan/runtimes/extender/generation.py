"""What a reload replaces, as one thing: policies, their sources, and how answers are given.

A request takes the generation that is there when it comes and stays with it to the end.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass

from bayplan.authoring.registry import Policy
from bayplan.runtimes.extender.verbs import Verbs
from bayplan.snapshot.sources import Latch, Readings
from bayplan.snapshot.units import Units
from bayplan.state.sources.book import Sources


@dataclass
class Generation:
    """One set of policies at work."""

    number: int
    verbs: Verbs
    sources: Sources
    _polling: "asyncio.Task[None] | None" = None

    def start(self) -> None:
        """Begin to ask its sources."""
        self._polling = asyncio.create_task(self.sources.run())

    async def readings(self, verb: str, body: bytes) -> Readings:
        """What sources say. Those that are asked about a pod are waited for here, before any thread is."""
        if not self.sources.asked:
            return self.sources.current
        pod, names, wanted = await asyncio.to_thread(self.verbs.about, verb, body)
        return await self.sources.about(pod, names, wanted=wanted)

    async def end(self) -> None:
        """Ask its sources no more."""
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)
        await self.sources.close()


def latches(policies: Collection[Policy]) -> set[Latch]:
    """The switches with a memory that policies read."""
    return {column for policy in policies for column in policy.columns if isinstance(column, Latch)}


def managed(policies: Collection[Policy]) -> set[Units]:
    """The devices that policies hand out."""
    return {column for policy in policies for column in policy.columns if isinstance(column, Units)}
