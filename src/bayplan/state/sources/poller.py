"""The poller asks one source for values of all nodes, again and again, in the background.

If a poll fails, the last values stay until they are too old. If polls go on failing, they become rarer, so
that a service that is down is not flooded too.
"""

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from bayplan.authoring.raised import safe_text
from bayplan.snapshot.bynode import numbers
from bayplan.snapshot.misfit import known_nodes, misfit
from bayplan.snapshot.sources import Latch, Match, Reading, Requested
from bayplan.snapshot.table import NodeTable
from bayplan.state.sources.calling import Calls
from bayplan.state.sources.http import SourceError, SourceHttp
from bayplan.state.sources.missing import Missing
from bayplan.state.sources.threads import AT_ONCE

log = logging.getLogger(__name__)

# This many failures in a row open the breaker: from then on the interval doubles, up to this factor.
_BREAKER = 3
_SLOWEST = 16


@dataclass(frozen=True)
class Polled:
    """A source that gives values for all nodes at once."""

    name: str
    fetch: Callable[[SourceHttp], Awaitable[Mapping[str, Any]]]
    every_seconds: float
    max_age_seconds: float
    match: Match = "name"
    settle_seconds: float = 0.0
    """How long it takes until a new pod shows in the values."""
    timeout_seconds: float = 10.0
    threads: int = AT_ONCE
    """How many threads its code may use at once; a call that hangs keeps its thread."""
    definition: object = None
    """If equal before and after a reload, the values are taken over; ``None`` if that is unknown."""


class Poller:
    """Polls one source, and keeps its latest reading."""

    def __init__(
        self,
        source: Polled,
        http: SourceHttp,
        *,
        latches: Collection[Latch] = (),
        nodes: Callable[[], NodeTable | None] = lambda: None,
        on_change: Callable[[], None] = lambda: None,
        observe: Callable[[float, str], None] = lambda *_: None,
        dice: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """``nodes`` returns the nodes in view; ``observe`` gets the seconds and the error of each poll."""
        self.source = source
        self.failures = 0
        """The number of failed polls in a row."""
        self.error = ""
        """Why the last poll failed; ``""`` if it succeeded."""
        self.misfit = ""
        """Why the values fit no node in view; ``""`` if they fit one."""
        self._http = http
        self._calls = Calls(source.name, timeout_seconds=source.timeout_seconds, threads=source.threads)
        self._latches = latches
        self._nodes = nodes
        self._on_change = on_change
        self._observe = observe
        self._dice = dice or random.Random()  # noqa: S311 - jitter, no secret
        self._clock = clock
        self._sleep = sleep
        self._reading = Reading({}, match=source.match)
        self._stale = self._reading
        self._fresh = False
        self._read_at = float("-inf")
        self._before: deque[tuple[float, Requested]] = deque()
        self._missing = Missing(source.name)

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            try:
                await self.ask()
            except Exception as error:
                # Our own error, not the source's: this poller and the others must go on.
                log.exception("source %s: this is a bug in Bayplan", self.source.name)
                self._failed(f"its answer cannot be used: {type(error).__name__}: {safe_text(error)}")
            # Jitter, since many servers may poll one source.
            pause = self._pause_seconds() * self._dice.uniform(0.95, 1.05)
            left = self.valid_until - self._clock()
            if self._fresh and left <= pause:
                await self._sleep(max(left, 0.0))
                pause -= max(left, 0.0)
                self._grow_old()
            await self._sleep(pause)

    async def ask(self) -> None:
        """Poll once."""
        start = self._clock()
        self._note_requests(start)
        try:
            fields = await self._calls.fields(lambda: self.source.fetch(self._http))
        except SourceError as error:
            self._failed(str(error))
        else:
            self._arrived(fields, asked_at=start)
        self._tell(partial(self._observe, self._clock() - start, self.error))

    def take_over(self, other: "Poller") -> None:
        """Take over the reading of another poller, with its age."""
        self._reading, self._stale, self._read_at = other._reading, other._stale, other._read_at
        self._fresh = other._fresh
        self._before = other._before.copy()

    @property
    def broken(self) -> bool:
        """Whether the breaker is open: after several failures, polls are rarer."""
        return self.failures >= _BREAKER

    @property
    def answered(self) -> bool:
        """Whether the source has ever given values."""
        return self._read_at > float("-inf")

    @property
    def age_seconds(self) -> float:
        """The age of the values; infinite if there never were any."""
        return self._clock() - self._read_at

    @property
    def valid_until(self) -> float:
        """When the values become too old, by the clock; infinite if there are none."""
        return self._read_at + self.source.max_age_seconds if self.answered else float("inf")

    @property
    def reading(self) -> Reading:
        """The latest reading; empty once it is too old."""
        if self._clock() >= self.valid_until:
            return self._stale
        if self._reading.before is None and (now := self._requested()) is not None:
            # The values are older than the first list of pods: count requests from now on.
            self._reading = replace(self._reading, before=now)
        return self._reading

    def _arrived(self, fields: Mapping[str, Mapping[str, Any]], *, asked_at: float) -> None:
        if self.error:
            log.info("source %s answers again", self.source.name)
        self.failures, self.error = 0, ""
        before = self._reading
        self._missing.tell(before)
        latched = {
            latch: latch.after(numbers(fields.get(latch.field, {})), before.latched.get(latch, frozenset()))
            for latch in self._latches
        }
        changed = fields != self.reading.fields
        self._reading = Reading(
            fields,
            version=before.version + 1,
            match=self.source.match,
            latched=latched,
            before=self._before[0][1] if self._before else None,
        )
        # Latches keep their state while the source is silent.
        self._stale = Reading({}, match=self.source.match, latched=latched)
        self._look_for_nodes()
        # The age counts from the request, since the answer may have taken long.
        self._read_at = asked_at
        self._fresh = True
        if changed:
            self._tell(self._on_change)

    def _look_for_nodes(self) -> None:
        nodes = self._nodes()
        found = misfit(self._reading, nodes) if nodes is not None else ""
        if found and found != self.misfit:
            log.warning("source %s: %s", self.source.name, found)
        self.misfit = found

    @property
    def known_nodes(self) -> int:
        """The number of nodes in view that have a value."""
        nodes = self._nodes()
        return known_nodes(self.reading, nodes) if nodes is not None else 0

    def _requested(self) -> Requested | None:
        nodes = self._nodes()
        return nodes.requested_now if nodes is not None else None

    def _grow_old(self) -> None:
        """Note that the values are too old, which is a change: pods refused for them may pass now."""
        self._fresh = False
        log.warning("source %s: its values are too old", self.source.name)
        self._tell(self._on_change)

    def _tell(self, listener: Callable[[], None]) -> None:
        """Call a listener; if it fails, polling goes on."""
        try:
            listener()
        except Exception:
            log.exception("source %s: one who was told of it failed: this is a bug", self.source.name)

    def _failed(self, text: str) -> None:
        self.failures += 1
        if text != self.error:
            log.warning("source %s: %s", self.source.name, text)
        self.error = text

    def _note_requests(self, now: float) -> None:
        """Remember what pods request now; of the states from before ``settle_seconds`` keep only the last."""
        if (requested := self._requested()) is not None:
            self._before.append((now, requested))
        while len(self._before) > 1 and self._before[1][0] <= now - self.source.settle_seconds:
            self._before.popleft()

    def _pause_seconds(self) -> float:
        slower = min(_SLOWEST, 2 ** (self.failures - _BREAKER + 1)) if self.broken else 1
        return self.source.every_seconds * slower
