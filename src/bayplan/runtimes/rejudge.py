"""Judges an answered question again with a candidate's policies, and compares the decisions."""

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
    """An answered question: the decision, and what it was based on."""

    @property
    def verb(self) -> str:
        """``filter`` or ``prioritize``; other verbs are not judged again."""
        ...

    @property
    def readings(self) -> Readings:
        """The readings of sources at that time."""
        ...

    @property
    def live(self) -> Decision | None:
        """The live decision; ``None`` if no policy applies to the pod."""
        ...

    @property
    def number(self) -> int:
        """The decision's number in the journal; 0 if there is none."""
        ...

    @property
    def size_bytes(self) -> int:
        """The memory that it alone holds while it waits."""
        ...

    @property
    def to_wire(self) -> ToWire:
        """Converts scores to those that count."""
        ...

    async def question(self, workers: Workers) -> Question:
        """The question."""
        ...


class CandidateFailed(Exception):
    """The candidate failed; the text says why."""


def judge_again(
    policies: Sequence[Policy], call: Precedent, question: Question, readings: Readings, attempt: Attempt
) -> tuple[Difference, float]:
    """The difference of the candidate's decision, and its seconds; run in the candidate's thread."""
    judge = filter_nodes if call.verb == "filter" else score_nodes
    live = judge((), question) if call.live is None else call.live
    if readings is not call.readings:
        cluster = question.cluster.with_readings(readings)
        names = question.nodes.names
        question = msgspec.structs.replace(
            question, cluster=cluster, nodes=cluster.nodes.take(cluster.find(names), names)
        )
    # As live: only its own node may pass for a pod with an unsettled bind.
    policies, _ = settled(policies, question.pod, question.cluster)
    said = judge(policies, question, attempt)
    if said.error:
        raise CandidateFailed(said.error)
    if call.verb == "filter":
        return filtered_differently(live, said), said.seconds
    return scored_differently(live, said, to_wire=call.to_wire), said.seconds
