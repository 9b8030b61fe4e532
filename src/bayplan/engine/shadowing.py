"""Counts how often a candidate configuration disagrees with the live one, and keeps recent examples.

Counting starts when the later of the two was loaded. Used by one thread only.
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
    """The live decision's number in the journal; 0 if no live policy applies to the pod."""
    difference: Difference


class ShadowReport(Struct, frozen=True, rename="camel", kw_only=True):
    """A candidate's disagreements with the live configuration."""

    candidate: str
    """The candidate's file; ``""`` if there is no candidate."""
    generation: int = 0
    """1 for the first candidate, one more for each that is loaded."""
    live_generation: int = 0
    policies: Sequence[str] = ()
    problem: str = ""
    """Why the last change of the candidate was refused; ``""`` if it was not."""
    since: str = ""
    """Start of counting: when this candidate or the live configuration was loaded, whichever was later."""
    sample_ratio: float = 1.0
    compared: int = 0
    disagreed: int = 0
    rate: float | None = None
    """``disagreed / compared``; null if nothing was compared."""
    results: Mapping[str, int] = {}
    refused_pods: int = 0
    """Filter calls in which a node passes live, but none with the candidate."""
    admitted_pods: int = 0
    """Filter calls in which no node passes live, but one with the candidate."""
    waiting: int = 0
    last_failure: str = ""
    sources: Mapping[str, str] = {}
    """The sources that only the candidate uses, with the problem of each."""
    steps: Sequence[tuple[int, int, int]] = ()
    """For each five seconds with comparisons: when, how many, and how many of them disagreed."""
    examples: Sequence[Example] = ()
    """The last disagreements, newest first."""


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
        """Count a comparison, and keep it as an example if the decisions differ."""
        now = self._clock()
        self.results[difference.result] += 1
        if difference.turn:
            self.turns[difference.turn] += 1
        differs = difference.result != "same"
        if differs:
            self._examples.appendleft(Example(stamp(now), verb, pod, decision, difference))
        begun = int(now) // STEP_SECONDS * STEP_SECONDS
        # The clock may go back: then the comparison counts in the newest step.
        if not self._steps or self._steps[-1][0] < begun:
            self._steps.append((begun, 0, 0))
        at, count, apart = self._steps.pop()
        self._steps.append((at, count + 1, apart + differs))

    def failed(self, text: str) -> None:
        """Count a call on which the candidate failed."""
        self.results["failed"] += 1
        self.last_failure = text

    def skipped(self) -> None:
        """Count a call that was skipped because too many were waiting."""
        self.results["skipped"] += 1

    def report(self, **about: object) -> ShadowReport:
        """The report, with these further fields."""
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
