"""The sources of a server: pollers for values of all nodes, askers for values about one pod."""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from bayplan.kube.pod import Pod
from bayplan.snapshot.sources import NO_READINGS, Latch, Readings
from bayplan.snapshot.table import NodeTable
from bayplan.state.sources.asker import Asked, Asker
from bayplan.state.sources.http import PLAIN_ACCESS, Access, SourceHttp
from bayplan.state.sources.poller import Polled, Poller


@dataclass(frozen=True)
class Declared:
    """A source and its HTTP settings."""

    source: Polled | Asked
    access: Access = field(default=PLAIN_ACCESS)

    @property
    def name(self) -> str:
        """The source's name, with which its columns begin."""
        return self.source.name


@dataclass(frozen=True)
class Watchers:
    """Callbacks of the sources."""

    nodes: Callable[[], NodeTable | None] = lambda: None
    """Returns the nodes in view."""
    changed: Callable[[str], None] = lambda _: None
    """Called with a source's name when its values have changed."""
    asked: Callable[[str, float, str], None] = lambda *_: None
    """Called after each request with the source's name, the seconds it took and the error or ``""``."""


class Sources:
    """All sources of a server, with their latest readings."""

    def __init__(
        self,
        declared: Iterable[Declared] = (),
        *,
        latches: Collection[Latch] = (),
        watchers: Watchers | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._watchers = watchers or Watchers()
        self._clock = clock
        self._https: list[SourceHttp] = []
        self.polled: dict[str, Poller] = {}
        self.asked: dict[str, Asker] = {}
        self._readings = NO_READINGS
        for each in declared:
            self._add(each, [latch for latch in latches if latch.source == each.name])

    async def run(self) -> None:
        """Poll the sources, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for poller in self.polled.values():
                group.create_task(poller.run())

    async def close(self) -> None:
        """Close the HTTP sessions."""
        for http in self._https:
            await http.close()

    def take_over(self, others: "Sources") -> None:
        """Take over the readings of the same sources from before a reload, until the next poll.

        A source with the same name but another definition begins empty: its values may mean something else.
        """
        for name, poller in self.polled.items():
            before = others.polled.get(name)
            known = poller.source.definition
            if before is not None and known is not None and known == before.source.definition:
                poller.take_over(before)

    @property
    def current(self) -> Readings:
        """The latest readings of the polled sources; the same object while nothing has changed."""
        if not self.polled and not self.asked:
            return NO_READINGS
        now = {name: poller.reading for name, poller in self.polled.items()}
        known = self._readings.by_source
        if self._readings is NO_READINGS or any(now[name] is not known[name] for name in now):
            self._readings = Readings(now)
        return self._readings

    async def about(self, pod: Pod, names: Sequence[str], *, wanted: Collection[str]) -> Readings:
        """The current readings, with those of the ``wanted`` askers about this pod on the named nodes."""
        askers = [asker for name, asker in self.asked.items() if name in wanted]
        found = await asyncio.gather(*(asker.about(pod, names) for asker in askers))
        return self.current.with_readings(
            {asker.source.name: reading for asker, reading in zip(askers, found, strict=True)}
        )

    def problems(self) -> Mapping[str, str]:
        """The problem of each source; ``""`` if there is none."""
        return {name: _problem(each) for name, each in self._every.items()}

    def up(self) -> Mapping[str, bool]:
        """Whether the last request to each source was answered."""
        return {
            name: not each.error and (isinstance(each, Asker) or each.answered)
            for name, each in self._every.items()
        }

    @property
    def _every(self) -> "dict[str, Poller | Asker]":
        return {**self.polled, **self.asked}

    def _add(self, declared: Declared, latches: Collection[Latch]) -> None:
        http = SourceHttp(declared.access)
        self._https.append(http)
        name = declared.name
        observe = partial(self._watchers.asked, name)
        if isinstance(declared.source, Asked):
            self.asked[name] = Asker(declared.source, http, observe=observe, clock=self._clock)
            return
        self.polled[name] = Poller(
            declared.source,
            http,
            latches=latches,
            nodes=self._watchers.nodes,
            on_change=lambda: self._watchers.changed(name),
            observe=observe,
            clock=self._clock,
        )


def _problem(source: Poller | Asker) -> str:
    if not source.error:
        if not isinstance(source, Poller):
            return ""
        return source.misfit if source.answered else "no answer yet"
    state = "broken: " if source.broken else ""
    times = "1 failure" if source.failures == 1 else f"{source.failures} failures in a row"
    return f"{state}{times}: {source.error}"
