"""The same question once more: what was said, and where other policies say something else."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from bayplan.authoring.registry import Policy
from bayplan.engine.cycle import Question, filter_nodes, score_nodes
from bayplan.engine.decision import Decision
from bayplan.engine.differ import Difference, ToWire, filtered_differently, scored_differently
from bayplan.engine.guard import Attempt
from bayplan.engine.unsettled import settled
from bayplan.runtimes.workers import Workers
from bayplan.snapshot.sources import Readings


class Precedent(Protocol):
    """What was asked, seen and said."""

    @property
    def verb(self) -> str:
        """``filter`` or ``prioritize``; others are not asked again."""
        ...

    @property
    def readings(self) -> Readings:
        """What sources had said."""
        ...

    @property
    def live(self) -> Decision | None:
        """What was decided; ``None`` where no policy was for the pod."""
        ...

    @property
    def number(self) -> int:
        """Of the decision in the journal; 0 where there is none."""
        ...

    @property
    def size_bytes(self) -> int:
        """What it keeps in memory while it waits, that nobody else does."""
        ...

    @property
    def to_wire(self) -> ToWire:
        """Scores as they count."""
        ...

    async def question(self, workers: Workers) -> Question:
        """What was asked."""
        ...


class CandidateFailed(Exception):
    """The candidate has no answer; the text says why."""


def judge_again(
    policies: Sequence[Policy], call: Precedent, question: Question, readings: Readings, attempt: Attempt
) -> tuple[Difference, float]:
    """Where the candidate says something else, and how long it took; in its thread."""
    judge = filter_nodes if call.verb == "filter" else score_nodes
    live = judge((), question) if call.live is None else call.live
    if readings is not call.readings:
        cluster = question.cluster.with_readings(readings)
        names = question.nodes.names
        question = msgspec.structs.replace(
            question, cluster=cluster, nodes=cluster.nodes.take(cluster.find(names), names)
        )
    # Live, a pod whose bind is not settled goes to that node or nowhere, whatever the policies.
    policies, _ = settled(policies, question.pod, question.cluster)
    said = judge(policies, question, attempt)
    if said.error:
        raise CandidateFailed(said.error)
    if call.verb == "filter":
        return filtered_differently(live, said), said.seconds
    return scored_differently(live, said, to_wire=call.to_wire), said.seconds
