"""The prioritize that follows a filter, worked out while kube-scheduler still reads the filter's answer.

For each pod kube-scheduler asks twice, one after the other, and waits for both. What it will ask the second
time is known when the first is answered: the same bytes, with the names that passed. So the scores are ready
when it asks. They are of the same cluster as the filter, as kube-scheduler's own are; if anything else comes,
another extender's choice of the names, say, it is judged as ever.
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

# As many callers can take turns; each has one pod at a time.
_AT_ONCE = 4
# A caller that never asks for scores costs so many that nobody wanted, and no more.
_PATIENCE = 3
# Where nobody asks for scores, so many filters go by until somebody looks whether that has changed.
_SELDOM = 16
# kube-scheduler asks within milliseconds; later the cluster may be another one.
_KEPT_SECONDS = 1.0


@dataclass(frozen=True)
class Prepared:
    """Scores that nobody has asked for yet."""

    said: Answer
    attempt: Attempt


@dataclass(eq=False)
class Foreseen:
    """A request that is to be expected."""

    body: bytes
    """What will be asked, byte for byte."""
    filtered: Judged
    generation: Generation
    cluster: Snapshot | None
    readings: Readings
    until: float
    """By the loop's clock: after that it is no answer any more."""
    prepared: "asyncio.Task[Prepared | None] | None" = None
    """Who works on the answer, if anybody does; ``None`` comes of it where there is none after all."""


@dataclass
class Ahead:
    """What is expected next. It belongs to the event loop."""

    count: Callable[[str], None] = lambda _: None
    """Told what became of scores: ``used`` or ``unused``."""
    _expected: deque[Foreseen] = field(default_factory=deque)
    _wanted: bool = False
    _unused: int = 0
    _filters: int = 0

    def worth_a_look(self) -> bool:
        """Whether to find out what comes after a filter: each time, or once in a while if nobody wants it."""
        self._filters += 1
        return self._wanted or self._filters % _SELDOM == 1

    def expect(self, foreseen: Foreseen) -> bool:
        """Remember it; whether it is worth an answer, by what became of those before it."""
        self._expected.append(foreseen)
        # Those of policies that were replaced would keep them in memory.
        while len(self._expected) > _AT_ONCE or self._expected[0].generation is not foreseen.generation:
            if self._expected.popleft().prepared is not None:
                self.count("unused")
                self._unused += 1
                self._wanted = self._wanted and self._unused < _PATIENCE
        return self._wanted

    async def take(
        self, body: bytes, generation: Generation, *, now: float
    ) -> tuple[Foreseen, Prepared] | None:
        """What was expected and has come, with the answer to it; ``None`` where there is none."""
        foreseen = next((each for each in self._expected if each.body == body), None)
        if foreseen is None:
            return None
        self._expected.remove(foreseen)
        # From the first time that it came true: one that nobody worked on shows that it is worth it.
        self._wanted, self._unused = True, 0
        if foreseen.prepared is None:
            return None
        prepared = await foreseen.prepared
        fresh = prepared is not None and foreseen.generation is generation and now <= foreseen.until
        self.count("used" if fresh else "unused")
        return (foreseen, prepared) if fresh and prepared is not None else None


def foresee(call: Call, generation: Generation, *, now: float) -> Foreseen | None:
    """What will be asked after this answer to a filter; ``None`` where there is nothing to be sure of."""
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
    # With one node left kube-scheduler asks nobody.
    if len(passed) < 2 or not generation.verbs.scores(judged.question.pod):
        return None
    wanted = followup(body, quoted(passed)) if judged.by_name else b""
    until = now + _KEPT_SECONDS
    return Foreseen(wanted, judged, generation, call.cluster, call.readings, until) if wanted else None
