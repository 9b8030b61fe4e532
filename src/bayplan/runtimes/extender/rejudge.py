"""One call judged once more: what was asked, seen and said, and where other policies say something else."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from bayplan.authoring.registry import Policy
from bayplan.engine.cycle import Question, filter_nodes, score_nodes
from bayplan.engine.differ import Difference, filtered_differently, scored_differently
from bayplan.engine.guard import Attempt
from bayplan.engine.unsettled import settled
from bayplan.runtimes.extender.verbs import Answer, question_of
from bayplan.runtimes.workers import Workers
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.sources import Readings
from bayplan.wire.scale import to_wire


@dataclass(frozen=True)
class Call:
    """What was asked, seen and said."""

    verb: str
    body: bytes
    said: Answer
    cluster: Snapshot | None
    readings: Readings
    now: datetime


class CandidateFailed(Exception):
    """The candidate has no answer; the text says why."""


async def question_again(call: Call, workers: Workers) -> Question:
    """What was asked; read again where no live policy was for the pod, and nobody looked at the nodes."""
    if call.said.judged is not None:
        return call.said.judged.question
    return await workers.run(lambda _: question_of(call.body, call.cluster, call.readings, call.now))


def judge_again(
    policies: Sequence[Policy], call: Call, question: Question, readings: Readings, attempt: Attempt
) -> tuple[Difference, float]:
    """Where the candidate says something else, and how long it took; in its thread."""
    judge = filter_nodes if call.verb == "filter" else score_nodes
    judged = call.said.judged
    live = judge((), question) if judged is None else judged.decision
    if readings is not call.readings:
        cluster = question.cluster.with_readings(readings)
        names = question.nodes.names
        question = replace(question, cluster=cluster, nodes=cluster.nodes.take(cluster.find(names), names))
    # Live, a pod whose bind is not settled goes to that node or nowhere, whatever the policies.
    policies, _ = settled(policies, question.pod, question.cluster)
    said = judge(policies, question, attempt)
    if said.error:
        raise CandidateFailed(said.error)
    if call.verb == "filter":
        return filtered_differently(live, said), said.seconds
    return scored_differently(live, said, to_wire=to_wire), said.seconds
