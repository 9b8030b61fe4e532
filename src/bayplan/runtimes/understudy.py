"""A running candidate: its policies, and the sources that the live configuration does not have."""

from collections.abc import Collection, Mapping, Sequence

from bayplan.authoring.registry import Policy
from bayplan.config.candidate import Candidate
from bayplan.kube.pod import Pod
from bayplan.runtimes.generation import Generation
from bayplan.runtimes.needs import latches, sources_for
from bayplan.runtimes.watched_task import WatchedTask
from bayplan.snapshot.sources import Latch, Readings
from bayplan.state.garbage import collect_soon
from bayplan.state.sources.asker import Asked
from bayplan.state.sources.book import Declared, Sources, Watchers
from bayplan.state.sources.poller import Polled

Profiles = Mapping[str, Sequence[Policy]]
"""Policies by the ``schedulerName`` of the pods that they judge."""


class Understudy:
    """One candidate, running beside one live generation."""

    def __init__(
        self,
        candidate: Candidate,
        live: Generation,
        *,
        number: int,
        watchers: Watchers | None = None,
        profiles: Profiles | None = None,
    ) -> None:
        self.candidate = candidate
        self.live = live
        self.number = number
        self.policies: Sequence[Policy] = candidate.loaded.policies
        self._profiles = profiles or {}
        every = (self.policies, *self._profiles.values())
        self.names = frozenset(policy.name for policies in every for policy in policies)
        wanted = latches(self.policies)
        declared = candidate.loaded.sources
        self._shared = {each.name for each in declared if _is_asked_by(live, each, wanted)}
        # A per-pod source that both have is queried again only if no live policy read it for the pod.
        own = [d for d in declared if d.name not in self._shared or isinstance(d.source, Asked)]
        self.sources = Sources(own, latches=wanted, watchers=watchers)
        self._polling: WatchedTask | None = None

    def policies_for(self, pod: Pod) -> Sequence[Policy]:
        """The policies that judge this pod."""
        return self._profiles.get(pod.scheduler_name, self.policies)

    def start(self) -> None:
        """Begin to poll its own sources."""
        if self.sources.polled:
            self._polling = WatchedTask(self.sources.run(), "sources of the candidate are not asked")

    @property
    def problem(self) -> str:
        """Why its own sources are not polled any more; ``""`` while they are."""
        return self._polling.problem if self._polling is not None else ""

    async def readings(self, pod: Pod, names: Sequence[str], live: Readings) -> Readings:
        """The readings for the candidate; sources that it shares have the values of the live policies."""
        if not self.sources.polled and not self.sources.asked:
            return live
        known = {name: live.by_source[name] for name in self._shared if name in live.by_source}
        wanted = sources_for(self.policies, pod) - known.keys()
        return (await self.sources.about(pod, names, wanted=wanted)).with_readings(known)

    async def end(self, *, forget: bool) -> None:
        """End its sources; with ``forget`` also unload its modules, if no other candidate uses them."""
        if self._polling is not None:
            await self._polling.end()
        await self.sources.close()
        if forget:
            self.candidate.loaded.edition.forget()
            collect_soon()


def _is_asked_by(live: Generation, declared: Declared, wanted: Collection[Latch]) -> bool:
    """Whether the live configuration has the same source, so that its values can be shared."""
    source, name = declared.source, declared.name
    if source.definition is None:
        return False
    if isinstance(source, Asked):
        asked = live.sources.asked.get(name)
        return asked is not None and _answers(asked.source) == _answers(source)
    polled = live.sources.polled.get(name)
    if polled is None or _values(polled.source) != _values(source):
        return False
    return {latch for latch in wanted if latch.source == name} <= latches(live.policies)


def _values(source: Polled) -> tuple[object, ...]:
    """The settings that a polled source's values depend on."""
    times = source.every_seconds, source.max_age_seconds, source.settle_seconds
    return source.definition, source.match, times


def _answers(source: Asked) -> tuple[object, ...]:
    return source.definition, source.timeout_seconds, source.keep_seconds, source.fallback
