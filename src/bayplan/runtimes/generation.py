"""What a reload replaces, as one thing: policies, their sources, and what was imported for them.

Whoever decides takes the generation that is there at the time and stays with it to the end.
"""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

from bayplan.authoring.editions import Edition, current_edition
from bayplan.authoring.registry import Policy
from bayplan.recording.lines import Configuration
from bayplan.runtimes.watched_task import WatchedTask
from bayplan.state.garbage import collect_soon
from bayplan.state.sources.book import Sources


@dataclass(kw_only=True)
class Generation:
    """One set of policies at work."""

    number: int
    policies: Sequence[Policy]
    sources: Sources
    told: Configuration = field(default_factory=Configuration)
    """How a recording tells of it."""
    edition: Edition = field(default_factory=current_edition)
    """What was imported for it."""
    _polling: WatchedTask | None = None
    _users: int = 0
    _unused: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._unused.set()

    @property
    def shadows(self) -> set[str]:
        """The policies that change nothing, and can be left out without a difference."""
        return {policy.name for policy in self.policies if policy.shadow}

    @property
    def problem(self) -> str:
        """Why its sources are not asked any more; ``""`` while they are."""
        return self._polling.problem if self._polling is not None else ""

    @contextlib.contextmanager
    def used(self) -> Iterator[Self]:
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
        if self.sources.polled:
            self._polling = WatchedTask(self.sources.run(), "sources are not asked")

    def let_go(self) -> None:
        """Do not wait for those that use it."""
        self._unused.set()

    async def end(self) -> None:
        """Poll its sources no more; when its last user is gone, close them and forget what was imported."""
        if self._polling is not None:
            await self._polling.end()
        await self._unused.wait()
        await self.sources.close()
        self.edition.forget()

    async def retire(self) -> None:
        """End, as another one has taken its place, and give the memory back."""
        await self.end()
        collect_soon()
