"""The current generation, the older ones still in use, and the candidate: what a reload switches."""

import asyncio
from typing import Generic, TypeVar

from bayplan.ops.logs import set_generation
from bayplan.ops.metrics import Metrics
from bayplan.runtimes.generation import Generation
from bayplan.runtimes.shadow import VERBS, Shadow, ShadowOptions

G = TypeVar("G", bound=Generation)


class Generations(Generic[G]):
    """The current generation, and older ones that requests still use."""

    def __init__(self, first: G, *, shadow: Shadow, metrics: Metrics) -> None:
        self.current = first
        """The generation for new requests; a request keeps its generation to the end."""
        self.shadow = shadow
        self.metrics = metrics
        metrics.edition = first.edition
        self._ending: dict[asyncio.Task[None], G] = {}

    @property
    def next_number(self) -> int:
        """The number of the next generation."""
        return self.current.number + 1

    def start(self, candidate: ShadowOptions | None) -> None:
        """Start the first generation and this candidate."""
        self.current.start()
        self.adopt_candidate(candidate)

    def adopt(self, fresh: G) -> G:
        """Switch to this generation; the old one ends when no request uses it any more."""
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
        """Let this candidate judge from now on; ``None`` for no candidate."""
        if options is not None:
            self.metrics.shadow.begin_at_zero(VERBS)
        self.shadow.adopt(options, self.current)

    async def end(self) -> None:
        """End all generations, without waiting for requests that did not end in time."""
        for generation in (self.current, *self._ending.values()):
            generation.let_go()
        await asyncio.gather(self.current.end(), *self._ending)
