"""The policies at work, one generation after another, and the candidate beside them.

What a reload replaces is replaced here, whichever the door; what the door makes of it is its own matter.
"""

import asyncio
from typing import Generic, TypeVar

from bayplan.ops.logs import set_generation
from bayplan.ops.metrics import Metrics
from bayplan.runtimes.generation import Generation
from bayplan.runtimes.shadow import VERBS, Shadow, ShadowOptions

G = TypeVar("G", bound=Generation)


class Generations(Generic[G]):
    """The generation that is at work, and those before it that are still used."""

    def __init__(self, first: G, *, shadow: Shadow, metrics: Metrics) -> None:
        self.current = first
        """Whoever decides takes it, and stays with it to the end."""
        self.shadow = shadow
        self.metrics = metrics
        metrics.edition = first.edition
        self._ending: dict[asyncio.Task[None], G] = {}

    @property
    def next_number(self) -> int:
        """Of the generation that comes after this one."""
        return self.current.number + 1

    def start(self, candidate: ShadowOptions | None) -> None:
        """Begin with the first one, and with this candidate beside it."""
        self.current.start()
        self.adopt_candidate(candidate)

    def adopt(self, fresh: G) -> G:
        """Decide with this one from now on; the old one ends when nobody uses it any more."""
        old = self.current
        fresh.sources.take_over(old.sources)
        fresh.start()
        self.current = fresh
        self.metrics.edition = fresh.edition
        set_generation(fresh.number)
        self.shadow.beside(fresh)
        task = asyncio.create_task(old.retire())
        self._ending[task] = old
        task.add_done_callback(self._ending.pop)
        return fresh

    def adopt_candidate(self, options: ShadowOptions | None) -> None:
        """Have this candidate judge too from now on; ``None`` for no candidate."""
        if options is not None:
            self.metrics.shadow.begin_at_zero(VERBS)
        self.shadow.adopt(options, self.current)

    async def end(self) -> None:
        """End them all; who still uses one did not end in time, and is not waited for any longer."""
        for generation in (self.current, *self._ending.values()):
            generation.let_go()
        await asyncio.gather(self.current.end(), *self._ending)
