"""Works out the prioritize that follows a filter while kube-scheduler still reads the filter's answer.

kube-scheduler sends filter, then prioritize, and waits for each. The prioritize is predictable once the
filter is answered: the same bytes, with the names that passed. So its scores can be ready when it arrives.
They come from the same snapshot as the filter, as kube-scheduler's own scores do. A prioritize with other
bytes, for example because another extender dropped some names, is judged in the usual way.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from bayplan.engine.guard import Attempt
from bayplan.runtimes.extender.assemble import quoted
from bayplan.runtimes.extender.followup import followup
from bayplan.runtimes.extender.generation import Generation
from bayplan.runtimes.extender.rejudge import Call
from bayplan.runtimes.extender.verbs import Answer, Judged
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.sources import Readings

# How many callers may interleave; each has one pod at a time.
_AT_ONCE = 4
# After so many unused scores no more are prepared: the caller has no prioritizeVerb.
_PATIENCE = 3
# While scores are not wanted, one filter in so many is used to find out whether a prioritize follows.
_SELDOM = 16
# kube-scheduler asks within milliseconds; after this time the cluster may have changed too much.
_KEPT_SECONDS = 1.0


@dataclass(frozen=True)
class Prepared:
    """The answer to a prioritize that has not arrived yet."""

    said: Answer
    attempt: Attempt


@dataclass(eq=False)
class Foreseen:
    """A prioritize request that is expected."""

    body: bytes
    """The expected request, byte for byte."""
    filtered: Judged
    generation: Generation
    cluster: Snapshot | None
    readings: Readings
    until: float
    """When the prepared answer expires, by the event loop's clock."""
    prepared: "asyncio.Task[Prepared | None] | None" = None
    """The task that prepares the answer, if one was started; its result is ``None`` if it failed."""


@dataclass
class Ahead:
    """The prioritize requests that are expected. Used on the event loop only."""

    count: Callable[[str], None] = lambda _: None
    """Called with ``used`` or ``unused`` for each prepared answer."""
    _expected: deque[Foreseen] = field(default_factory=deque)
    _wanted: bool = False
    _unused: int = 0
    _filters: int = 0

    def worth_a_look(self) -> bool:
        """Whether to foresee the request after this filter: always, or seldom while scores are not wanted."""
        self._filters += 1
        return self._wanted or self._filters % _SELDOM == 1

    def expect(self, foreseen: Foreseen) -> bool:
        """Remember an expected request; whether to prepare its answer, since earlier ones were used."""
        self._expected.append(foreseen)
        # Drop requests of an older generation too: they would keep its policies in memory.
        while len(self._expected) > _AT_ONCE or self._expected[0].generation is not foreseen.generation:
            if self._expected.popleft().prepared is not None:
                self.count("unused")
                self._unused += 1
                self._wanted = self._wanted and self._unused < _PATIENCE
        return self._wanted

    async def take(
        self, body: bytes, generation: Generation, *, now: float
    ) -> tuple[Foreseen, Prepared] | None:
        """Take the expected request with this body and its prepared answer; ``None`` if there is none."""
        foreseen = next((each for each in self._expected if each.body == body), None)
        if foreseen is None:
            return None
        self._expected.remove(foreseen)
        # A prediction came true, prepared or not: prepare answers from now on.
        self._wanted, self._unused = True, 0
        if foreseen.prepared is None:
            return None
        prepared = await foreseen.prepared
        fresh = prepared is not None and foreseen.generation is generation and now <= foreseen.until
        self.count("used" if fresh else "unused")
        return (foreseen, prepared) if fresh and prepared is not None else None


def foresee(call: Call, generation: Generation, *, now: float) -> Foreseen | None:
    """The prioritize request that follows this answered filter; ``None`` if it cannot be predicted."""
    body, said, judged = call.body, call.said, call.said.judged
    verbs = generation.verbs
    if judged is None or said.error or verbs.observe or generation.sources.asked:
        return None
    if said.cut_for and verbs.keep is not None:
        return None
    if judged.decision.not_in_view or judged.decision.failures:
        return None
    passed = judged.decision.passed_names
    if not generation.verbs.spelling.is_plain(judged.question.nodes.every_name):
        return None
    # With one node left kube-scheduler sends no prioritize.
    if len(passed) < 2 or not generation.verbs.scores(judged.question.pod):
        return None
    wanted = followup(body, quoted(passed)) if judged.by_name else b""
    until = now + _KEPT_SECONDS
    return Foreseen(wanted, judged, generation, call.cluster, call.readings, until) if wanted else None
