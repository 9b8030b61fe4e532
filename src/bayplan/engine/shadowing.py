"""What came of judging twice: how often a candidate disagreed, and the last times that it did.

Everything is counted from when the two sides that are compared were loaded. Written and read by one thread.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from bayplan.engine.differ import Difference
from bayplan.engine.why import stamp

STEP_SECONDS = 5
_STEPS = 180
COMPARED = ("same", "refuses_more", "accepts_more", "mixed", "other_node")
RESULTS = (*COMPARED, "failed", "skipped")


class Example(Struct, frozen=True, rename="camel"):
    """One disagreement."""

    at: str
    verb: str
    pod: str
    decision: int
    """The live decision's number in the journal; 0 where no live policy was for the pod."""
    difference: Difference


class ShadowReport(Struct, frozen=True, rename="camel", kw_only=True):
    """How a candidate does beside the live configuration."""

    candidate: str
    """Its file; ``""`` where there is none."""
    generation: int = 0
    """1 for the first candidate, one more with each that is taken over."""
    live_generation: int = 0
    policies: Sequence[str] = ()
    problem: str = ""
    """Why the last change of the candidate was not taken over; ``""`` when it was."""
    since: str = ""
    """From when on is counted: when this candidate, or the live configuration, was loaded."""
    sample_ratio: float = 1.0
    compared: int = 0
    disagreed: int = 0
    rate: float | None = None
    """Disagreed of compared; null where nothing was compared."""
    results: Mapping[str, int] = {}
    refused_pods: int = 0
    """Filter calls in which a node passes, and none would."""
    admitted_pods: int = 0
    """Filter calls in which no node passes, and one would."""
    waiting: int = 0
    last_failure: str = ""
    sources: Mapping[str, str] = {}
    """Sources that only the candidate asks, and what is wrong with each."""
    steps: Sequence[tuple[int, int, int]] = ()
    """Each five seconds in which something was compared: when, how many, how many of them disagreed."""
    examples: Sequence[Example] = ()
    """The last disagreements, the newest first."""


NO_SHADOW = ShadowReport(candidate="")


class Disagreements:
    """Counts, and keeps a few examples."""

    def __init__(self, *, examples: int, clock: Callable[[], float] = time.time) -> None:
        self.since = clock()
        self.results: Counter[str] = Counter()
        self.turns: Counter[str] = Counter()
        self.last_failure = ""
        self._clock = clock
        self._examples: deque[Example] = deque(maxlen=examples)
        self._steps: deque[tuple[int, int, int]] = deque(maxlen=_STEPS)

    def compared(self, verb: str, pod: str, difference: Difference, *, decision: int) -> None:
        """Count a comparison, and keep it where the two do not agree."""
        now = self._clock()
        self.results[difference.result] += 1
        if difference.turn:
            self.turns[difference.turn] += 1
        differs = difference.result != "same"
        if differs:
            self._examples.appendleft(Example(stamp(now), verb, pod, decision, difference))
        begun = int(now) // STEP_SECONDS * STEP_SECONDS
        # A clock may go back: what comes then counts in the newest step.
        if not self._steps or self._steps[-1][0] < begun:
            self._steps.append((begun, 0, 0))
        at, count, apart = self._steps.pop()
        self._steps.append((at, count + 1, apart + differs))

    def failed(self, text: str) -> None:
        """Count a call that the candidate had no answer to."""
        self.results["failed"] += 1
        self.last_failure = text

    def skipped(self) -> None:
        """Count a call that came while too many were waiting."""
        self.results["skipped"] += 1

    def report(self, **about: object) -> ShadowReport:
        """All of it, with what else there is to say."""
        compared = sum(self.results[result] for result in COMPARED)
        disagreed = compared - self.results["same"]
        return ShadowReport(
            since=stamp(self.since),
            compared=compared,
            disagreed=disagreed,
            rate=disagreed / compared if compared else None,
            results={result: self.results[result] for result in RESULTS},
            refused_pods=self.turns["refused"],
            admitted_pods=self.turns["admitted"],
            last_failure=self.last_failure,
            steps=tuple(self._steps),
            examples=tuple(self._examples),
            **about,  # type: ignore[arg-type]
        )
