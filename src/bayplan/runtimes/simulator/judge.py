"""Judges one recorded request by any policies: which nodes pass, and which is best."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from bayplan.authoring.registry import Policy
from bayplan.engine.cycle import Question, filter_nodes, score_nodes
from bayplan.engine.decision import Decision
from bayplan.engine.differ import best_rows, why_none
from bayplan.kube.pod import Pod
from bayplan.recording.attempts import VERB as SCHEDULE
from bayplan.recording.lines import Configuration, RecordingError
from bayplan.runtimes.simulator.cases import Case
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.lookup import UNKNOWN_ROW
from bayplan.wire import v1
from bayplan.wire.codec import decode, decode_nodes


@dataclass(frozen=True)
class Judgement:
    """The policies' decision about the nodes of a request."""

    pod: Pod
    cluster: Snapshot
    filtered: Decision
    passed: list[str]
    totals: list[float]
    """0 to 100, of the nodes that passed; all the same where nobody has a score to give."""

    @property
    def best(self) -> str:
        """The best node that passed, the first of equals; ``""`` if none did."""
        if not self.passed:
            return ""
        return self.passed[best_rows(self.totals)[0]]

    def best_or(self, node: str) -> str:
        """That node if its score equals the best one, else the best node."""
        places = best_rows(self.totals) if self.passed else ()
        return node if any(self.passed[place] == node for place in places) else self.best

    @property
    def refused(self) -> dict[str, str]:
        """The reason for each refused node, in the request's order."""
        rows = range(len(self.filtered.nodes))
        return {r.node: r.reason.text for row in rows if (r := self.filtered.refusal(row))}

    @property
    def why_none(self) -> str:
        """Why no node is left, in a few words; ``""`` if one is."""
        return why_none(self.filtered)


Side = Callable[[Configuration, Pod], Sequence[Policy]]
"""The policies for a pod of a recording, which was made with that configuration."""


def judge_with(side: Side, question: Question, case: Case) -> Judgement:
    """Judge a recorded question by one side's policies, in the cluster as recorded."""
    return _judge(side(case.configuration, question.pod), question, case)


def judge(policies: Sequence[Policy], case: Case) -> Judgement:
    """Judge a recorded question by these policies, in the cluster as recorded."""
    return _judge(policies, question_of(case), case)


def question_of(case: Case) -> Question:
    """The recorded question; `RecordingError` if its line is damaged."""
    try:
        # Parts are decoded on demand, so a line of valid JSON may still be damaged.
        case.attempt()
        return _question(case)
    except (LookupError, OverflowError, ValueError, msgspec.MsgspecError) as error:
        raise RecordingError(f"decision {case.number} of the recording cannot be read: {error}") from error


def _judge(policies: Sequence[Policy], question: Question, case: Case) -> Judgement:
    filtered = filter_nodes(policies, question, case.attempt())
    passed = [] if filtered.error else filtered.passed_names
    cluster = question.cluster
    survivors = msgspec.structs.replace(
        question, nodes=cluster.nodes.take(cluster.find(passed), passed), not_in_view=()
    )
    scored = score_nodes(policies, survivors, case.attempt())
    totals = [0.0] * len(passed) if scored.total is None else scored.total.tolist()
    return Judgement(question.pod, cluster, filtered, passed, totals)


def _question(case: Case) -> Question:
    args = decode(case.body, v1.ExtenderArgs)
    if args.pod is None:
        raise RecordingError("a request without a pod")
    cluster = case.cluster
    if args.nodes is not None:
        objects = decode_nodes(args.nodes.items or [])
        cluster = cluster.with_nodes(objects) if cluster else Snapshot.build(objects, None)
        names = [node.name for node in objects]
    elif args.node_names is None and case.verb == SCHEDULE and cluster is not None:
        names = list(cluster.nodes.names)
    else:
        names = args.node_names or []
    cluster = (cluster or Snapshot.build([], None)).with_readings(case.readings)
    rows = cluster.find(names)
    known = [name for name, row in zip(names, rows.tolist(), strict=True) if row != UNKNOWN_ROW]
    missing = tuple(name for name, row in zip(names, rows.tolist(), strict=True) if row == UNKNOWN_ROW)
    nodes = cluster.nodes.take(rows[rows != UNKNOWN_ROW], known)
    return Question(args.pod, nodes, cluster, case.said.now, missing)
