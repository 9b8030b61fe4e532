"""One source that is asked again and again, in the background.

A source that fails keeps its last values until they are too old; one that goes on failing is asked less and
less often, so that whoever is down is not also flooded.
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

# So many failures in a row open the breaker: from then on it is asked at most this many times less often.
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
    """Pods that came this long before a reading are not in its values yet."""
    timeout_seconds: float = 10.0
    threads: int = AT_ONCE
    """How many calls of its code may be in threads at once; one that hangs keeps its thread."""
    definition: object = None
    """Equal where values mean the same, so that they outlive a reload; ``None`` where nobody can tell."""


class Poller:
    """Asks one source, and keeps what it said."""

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
        """``nodes`` are those in view; ``observe`` is told of each try, and what was wrong."""
        self.source = source
        self.failures = 0
        """How many tries in a row have failed."""
        self.error = ""
        """Why the last try failed; ``""`` after one that did not."""
        self.misfit = ""
        """Why what it said is of no node in view; ``""`` where it is."""
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
        """Ask until cancelled."""
        while True:
            try:
                await self.ask()
            except Exception as error:
                # Not the source's own: the others go on all the same, and so does this one.
                log.exception("source %s: this is a bug in Bayplan", self.source.name)
                self._failed(f"its answer cannot be used: {type(error).__name__}: {safe_text(error)}")
            # Not all at the same moment, where many servers ask one source.
            pause = self._pause_seconds() * self._dice.uniform(0.95, 1.05)
            left = self.valid_until - self._clock()
            if self._fresh and left <= pause:
                await self._sleep(max(left, 0.0))
                pause -= max(left, 0.0)
                self._grow_old()
            await self._sleep(pause)

    async def ask(self) -> None:
        """Ask once."""
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
        """Begin with the values of another one, as old as they are."""
        self._reading, self._stale, self._read_at = other._reading, other._stale, other._read_at
        self._fresh = other._fresh
        self._before = other._before.copy()

    @property
    def broken(self) -> bool:
        """Whether the breaker is open: it has failed so often that it is asked less often."""
        return self.failures >= _BREAKER

    @property
    def answered(self) -> bool:
        """Whether it ever gave values."""
        return self._read_at > float("-inf")

    @property
    def age_seconds(self) -> float:
        """How old the values are; infinite where there never were any."""
        return self._clock() - self._read_at

    @property
    def valid_until(self) -> float:
        """When the values are too old, by the clock; infinite where there are none to grow old."""
        return self._read_at + self.source.max_age_seconds if self.answered else float("inf")

    @property
    def reading(self) -> Reading:
        """What it said last, or nothing once that is too old."""
        if self._clock() >= self.valid_until:
            return self._stale
        if self._reading.before is None and (now := self._requested()) is not None:
            # It was read before the pods were listed: what they request is counted from here.
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
        # What is switched on stays so while the source is silent.
        self._stale = Reading({}, match=self.source.match, latched=latched)
        self._look_for_nodes()
        # Counted from the question: the answer may have been long on its way.
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
        """How many of the nodes in view have a value."""
        nodes = self._nodes()
        return known_nodes(self.reading, nodes) if nodes is not None else 0

    def _requested(self) -> Requested | None:
        nodes = self._nodes()
        return nodes.requested_now if nodes is not None else None

    def _grow_old(self) -> None:
        """No value is another value: whoever was refused for it may pass now."""
        self._fresh = False
        log.warning("source %s: its values are too old", self.source.name)
        self._tell(self._on_change)

    def _tell(self, listener: Callable[[], None]) -> None:
        """Whoever listens and fails does not keep the source from being asked again."""
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
        """Remember what pods request now; the oldest that is kept is from before the values settle."""
        if (requested := self._requested()) is not None:
            self._before.append((now, requested))
        while len(self._before) > 1 and self._before[1][0] <= now - self.source.settle_seconds:
            self._before.popleft()

    def _pause_seconds(self) -> float:
        slower = min(_SLOWEST, 2 ** (self.failures - _BREAKER + 1)) if self.broken else 1
        return self.source.every_seconds * slower
