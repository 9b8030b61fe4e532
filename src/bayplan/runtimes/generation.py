"""A generation: what a reload replaces as a whole: policies, their sources, and their imported modules.

A request takes the current generation when it starts, and keeps it to the end.
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
    """One set of policies in force."""

    number: int
    policies: Sequence[Policy]
    sources: Sources
    told: Configuration = field(default_factory=Configuration)
    """The configuration as a recording describes it."""
    edition: Edition = field(default_factory=current_edition)
    """The modules that were imported for its policies."""
    _polling: WatchedTask | None = None
    _users: int = 0
    _unused: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._unused.set()

    @property
    def shadows(self) -> set[str]:
        """The names of its shadow policies, which change no answer."""
        return {policy.name for policy in self.policies if policy.shadow}

    @property
    def problem(self) -> str:
        """Why its sources are not polled any more; ``""`` while they are."""
        return self._polling.problem if self._polling is not None else ""

    @contextlib.contextmanager
    def used(self) -> Iterator[Self]:
        """Keep the generation from ending while the block runs."""
        self._users += 1
        self._unused.clear()
        try:
            yield self
        finally:
            self._users -= 1
            if not self._users:
                self._unused.set()

    def start(self) -> None:
        """Begin to poll its sources."""
        if self.sources.polled:
            self._polling = WatchedTask(self.sources.run(), "sources are not asked")

    def let_go(self) -> None:
        """Let `end` not wait for users any more."""
        self._unused.set()

    async def end(self) -> None:
        """Stop polling; after the last user has gone, close the sources and unload the modules."""
        if self._polling is not None:
            await self._polling.end()
        await self._unused.wait()
        await self.sources.close()
        self.edition.forget()

    async def retire(self) -> None:
        """End a generation that was replaced, and free its memory."""
        await self.end()
        collect_soon()
