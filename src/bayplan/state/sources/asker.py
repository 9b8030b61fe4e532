"""The asker asks a source about one pod while kube-scheduler waits, with a hard deadline and a fallback.

It keeps an answer for a moment, so that filter and prioritize of one attempt ask once. If the source is down,
late or wrong, the configured fallback is used, and kept too, so that an attempt waits only once. After a few
failures in a row the source is not asked at all for a while (the breaker is open).
"""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bayplan.kube.pod import Pod
from bayplan.snapshot.bynode import Scalar
from bayplan.snapshot.sources import Reading
from bayplan.state.sources.calling import Calls
from bayplan.state.sources.http import SourceError, SourceHttp

log = logging.getLogger(__name__)

_BREAKER = 5
_OPEN_SECONDS = 10.0
# Longer than the time from filter to prioritize, shorter than the time until the pod is tried again.
_KEPT_FALLBACK_SECONDS = 1.0
# An answer may have a value for each node; few suffice, since kube-scheduler tries one pod after another.
_KEPT = 256
_KEPT_NODES = 200_000


@dataclass(frozen=True)
class Asked:
    """A source that gives values for one pod."""

    name: str
    fetch: Callable[[SourceHttp, Pod, Sequence[str]], Awaitable[Mapping[str, Any]]]
    timeout_seconds: float = 0.5
    keep_seconds: float = 10.0
    fallback: Mapping[str, Scalar] = field(default_factory=dict)
    """The value of each field, for every node, if there is no answer."""
    definition: object = None
    """Two sources with equal definitions give equal answers; ``None`` if that is unknown."""


@dataclass(frozen=True)
class _Kept:
    names: frozenset[str]
    reading: Reading
    until: float


class Asker:
    """Asks one source about pods."""

    def __init__(
        self,
        source: Asked,
        http: SourceHttp,
        *,
        observe: Callable[[float, str], None] = lambda *_: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.source = source
        self.failures = 0
        """The number of failed requests in a row."""
        self.error = ""
        """Why the last request failed; ``""`` if it succeeded."""
        self._http = http
        self._calls = Calls(source.name, timeout_seconds=source.timeout_seconds)
        self._observe = observe
        self._clock = clock
        self._open_until = float("-inf")
        self._kept: dict[tuple[str, str], _Kept] = {}
        self._versions = 0

    @property
    def broken(self) -> bool:
        """Whether the breaker is open: the source is not asked for a while."""
        return self._clock() < self._open_until

    async def about(self, pod: Pod, names: Sequence[str]) -> Reading:
        """The source's reading for the pod on these nodes, or the fallback."""
        kept = self._kept.get(_identity(pod))
        if kept is not None and self._clock() < kept.until and kept.names.issuperset(names):
            return kept.reading
        if self.broken:
            return self._fallback(names)
        start = self._clock()
        try:
            fields = await self._calls.fields(lambda: self.source.fetch(self._http, pod, names))
        except SourceError as error:
            self._failed(str(error))
            reading = self._fallback(names)
            self._keep(pod, names, reading, seconds=min(self.source.keep_seconds, _KEPT_FALLBACK_SECONDS))
        else:
            if self.error:
                log.info("source %s answers again", self.source.name)
            self.failures, self.error = 0, ""
            reading = self._reading(fields)
            self._keep(pod, names, reading, seconds=self.source.keep_seconds)
        self._observe(self._clock() - start, self.error)
        return reading

    def _keep(self, pod: Pod, names: Sequence[str], reading: Reading, *, seconds: float) -> None:
        now = self._clock()
        self._kept.pop(_identity(pod), None)
        nodes = len(names) + sum(len(kept.names) for kept in self._kept.values())
        for identity, kept in list(self._kept.items()):
            # An answer about 5,000 nodes takes more than a megabyte, so the number of nodes is limited too.
            if kept.until > now and len(self._kept) < _KEPT and nodes <= _KEPT_NODES:
                break
            nodes -= len(kept.names)
            del self._kept[identity]
        self._kept[_identity(pod)] = _Kept(frozenset(names), reading, now + seconds)

    def _fallback(self, names: Sequence[str]) -> Reading:
        fallback = self.source.fallback
        return self._reading({name: dict.fromkeys(names, value) for name, value in fallback.items()})

    def _reading(self, fields: Mapping[str, Mapping[str, Scalar]]) -> Reading:
        self._versions += 1
        reading = Reading(fields, version=self._versions)
        for laid_out in reading.laid_out.values():
            # Computed here, since policies that read it have a deadline.
            _ = laid_out.numbers
        return reading

    def _failed(self, text: str) -> None:
        self.failures += 1
        if text != self.error:
            log.warning("source %s: %s; its fallback is taken", self.source.name, text)
        self.error = text
        if self.failures >= _BREAKER:
            self._open_until = self._clock() + _OPEN_SECONDS


def _identity(pod: Pod) -> tuple[str, str]:
    """Key and UID: pods that are not created yet have no UID, but differ in their keys."""
    return pod.key, pod.uid
