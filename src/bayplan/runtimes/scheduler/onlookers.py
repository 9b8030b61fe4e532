"""Passes judgements to recording, candidate and tracing. The loop never waits for any of them."""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from bayplan.engine.cycle import Question
from bayplan.engine.decision import Decision
from bayplan.engine.differ import ToWire
from bayplan.engine.guard import Attempt
from bayplan.kube.pod import Pod
from bayplan.ops.tracing import Tracing, begin, current_trace, note_hooks, note_part
from bayplan.recording.notes import Basis, Scheduled
from bayplan.recording.recorder import Recorder
from bayplan.runtimes.scheduler.generation import Generation
from bayplan.runtimes.scheduler.judge import Judgement
from bayplan.runtimes.scheduler.waiting import Waiting
from bayplan.runtimes.shadow import Shadow
from bayplan.runtimes.workers import Workers
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.sources import Readings

_SHOWN_DIGITS = 3
_NUMBERS = 1024


@dataclass(frozen=True)
class Judged:
    """A judged pod, with everything that the judgement was based on."""

    pod: Pod
    found: Judgement
    generation: Generation
    cluster: Snapshot
    """The cluster without readings and without expected pods."""
    readings: Readings
    attempt: Attempt
    expecting: Mapping[str, Collection[Pod]] = field(default_factory=dict)
    """Nominated pods, by node."""


@dataclass(frozen=True)
class Call:
    """The filter or the scores of an attempt, for the candidate to judge again."""

    verb: str
    live: Decision
    seen: Judged
    number: int
    size_bytes: int = 0

    @property
    def readings(self) -> Readings:
        """The readings of sources at that time."""
        return self.seen.readings

    @property
    def to_wire(self) -> ToWire:
        """Rounds scores, 0 to 100, to three digits."""
        return _to_wire

    async def question(self, workers: Workers) -> Question:  # noqa: ARG002 - nothing is left to read
        """The question; built only now, since most calls of a burst are skipped."""
        seen = self.seen
        cluster = seen.cluster.keeping(seen.expecting).with_readings(seen.readings)
        return Question(seen.pod, self.live.nodes, cluster, seen.attempt.now)


class Onlookers:
    """Passes judgements on; costs nothing while recording, tracing and candidate are off."""

    def __init__(self, shadow: Shadow) -> None:
        self.shadow = shadow
        self.recorder: Recorder | None = None
        """Records judgements; ``None`` where recording is off."""
        self.tracing: Tracing | None = None
        """Gets a trace of each attempt; ``None`` where tracing is off."""
        self._numbers: dict[int, int] = {}

    @property
    def closely(self) -> bool:
        """Whether pods must be judged one by one, not in batches, for recording or tracing."""
        return self.recorder is not None or self.tracing is not None

    def begin(self, waiting: Waiting, generation: Generation) -> None:
        """An attempt begins; its trace starts when the pod began to wait for it."""
        if self.tracing is None:
            return
        waited = max(0.0, time.monotonic() - (waiting.tried_at or waiting.since))
        trace = begin("schedule", generation.number, {})
        trace.pod = waiting.pod.key
        trace.began -= waited
        note_part("queue", began=trace.began, said={"bayplan.attempt": waiting.attempts})

    def noted(self, decision: Decision, number: int) -> None:
        """Remember a decision's number in the journal; called in a policy thread."""
        if self.shadow.active:
            if len(self._numbers) >= _NUMBERS:
                # Leftovers of judgements that were given up; the others were popped.
                self._numbers.clear()
            self._numbers[id(decision)] = number

    def judged(self, seen: Judged, *, began: float) -> None:
        """A pod was judged."""
        if self.tracing is not None:
            note_part("judge", began=began)
            note_hooks(seen.attempt, within="judge")
        if self.recorder is not None:
            self._record(self.recorder, seen)
        if self.shadow.active:
            for call in self._calls(seen):
                self.shadow.offer(call)

    def ended(self, result: str, error: str) -> None:
        """An attempt ended; called in the task that made it."""
        trace = current_trace()
        if self.tracing is not None and trace is not None:
            seconds = time.perf_counter() - trace.began
            self.tracing.tell(trace, seconds=seconds, result=result, error=error)

    def bound(self, pod: Pod, node: str, error: str) -> None:
        """A bind ended, and with it the attempt; called in the task that made it."""
        if self.recorder is not None:
            self.recorder.placed(pod, node, error=error)
        trace = current_trace()
        if trace is None:
            return
        judged = [step.began + step.seconds for step in trace.steps if step.name == "judge"]
        trace.steps = [replace(step, within="bind") if step.kind == "api" else step for step in trace.steps]
        note_part("bind", began=max(judged, default=time.perf_counter()), error=error)
        trace.node = node
        self.ended("error" if error else "scheduled", error)

    def _record(self, recorder: Recorder, seen: Judged) -> None:
        basis = Basis(seen.generation.told, seen.cluster, seen.readings, seen.attempt, seen.expecting)
        found = seen.found
        whole = len(found.choice.filtered.nodes) == len(seen.cluster.nodes)
        recorder.scheduled(Scheduled(seen.pod, found.choice, whole, basis))
        if found.node and found.annotations:
            recorder.committed(seen.pod, found.node, refusal="", annotations=found.annotations, basis=basis)

    def _calls(self, seen: Judged) -> list[Call]:
        choice = seen.found.choice
        halves = (("filter", choice.filtered), ("prioritize", choice.scored))
        return [
            Call(verb, decision, seen, self._numbers.pop(id(decision), 0))
            for verb, decision in halves
            if decision is not None
        ]


def _to_wire(scores: NDArray[np.float64]) -> list[float]:
    rounded: list[float] = np.round(scores, _SHOWN_DIGITS).tolist()
    return rounded
