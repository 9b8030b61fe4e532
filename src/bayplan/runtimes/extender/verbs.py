"""The four verbs: the bytes of a request in, the bytes of an answer out. Only bind waits for anything.

``filter``, ``prioritize`` and ``preempt`` have no side effects: kube-scheduler repeats them and calls
them for simulations that it throws away.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

import msgspec

from bayplan.authoring.registry import Policy
from bayplan.authoring.verdict import Reason
from bayplan.engine.commit import Commitment, commit
from bayplan.engine.cycle import Question, filter_nodes, interested, score_nodes
from bayplan.engine.decision import NOT_IN_VIEW, Decision, Rows
from bayplan.engine.entry import PodRef
from bayplan.engine.guard import Attempt
from bayplan.engine.journal import Journal
from bayplan.engine.keep import Refusals, Turns, filter_and_keep
from bayplan.engine.preempt import Candidate, PreemptDecision, choose_candidates
from bayplan.engine.unsettled import settled
from bayplan.kube.pod import Pod
from bayplan.ops.logs import Sparingly
from bayplan.ops.metrics import Metrics
from bayplan.ops.tracing import note_pod
from bayplan.runtimes.extender import answer
from bayplan.runtimes.extender.answer import Asked
from bayplan.runtimes.extender.assemble import Spelling
from bayplan.runtimes.extender.preemption import candidates_in, preemptor
from bayplan.runtimes.extender.question import (
    FindHooks,
    asked_as_sent,
    asked_in,
    nothing_known,
    pod_of,
    read_question,
)
from bayplan.runtimes.needs import sources_for
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.sources import NO_READINGS, Readings
from bayplan.wire import v1
from bayplan.wire.codec import WireError, decode, encode

log = logging.getLogger(__name__)

NO_BINDER = (
    "bind needs the API server, and pods in view: start with --kubeconfig or --in-cluster, without"
    " cluster.nodesOnly, or drop bindVerb"
)


class Answer(msgspec.Struct, frozen=True):
    """The answer to one request, and what to do after it is sent."""

    body: bytes
    result: str = "ok"
    error: str = ""
    not_in_view: tuple[str, ...] = ()
    """Requested nodes that the view lacks: worth reading from the API server before they are refused."""
    refused: "Refused | None" = None
    """The pod, if every node was refused: worth a moment's wait for changes of the cluster."""
    judged: "Judged | None" = None
    """The decision of a filter or prioritize; ``None`` where no policy applies to the pod."""
    cut_for: str = ""
    """UID of the pod, if the answer left nodes or reasons out: the pod's next answer makes up for it."""
    weight: int = 0
    """Memory that `write_down` holds, as the number of nodes of a decision that holds as much."""
    write_down: Callable[[], None] = lambda: None
    """Counts the decision and puts it into the journal. The sender calls it once, after sending the answer,
    so that kube-scheduler does not wait for it."""


@dataclass(frozen=True)
class Refused:
    """A pod that every node was refused for."""

    pod: Pod
    helped_by: frozenset[str]
    """What may change the verdicts; empty for anything."""


class Judged(msgspec.Struct, frozen=True):
    """A question and the decision on it."""

    question: Question
    decision: Decision
    number: int
    """The decision's number in the journal."""
    by_name: bool = True
    """Whether the request named nodes of the view; else it brought the nodes themselves."""
    cut: Decision | None = None
    """Of a filter with `keep`: the scores of the nodes that passed."""


class Binder(Protocol):
    """Binds pods to nodes."""

    async def bind(self, *, namespace: str, name: str, uid: str, node: str) -> None:
        """Bind the pod, idempotently; raises an exception whose text says why it could not."""
        ...


@dataclass
class Verbs:
    """Answers requests by policies, over the view of the cluster or over the nodes in the request."""

    policies: Sequence[Policy]
    metrics: Metrics
    observe: bool = False
    failed_nodes_heeded: bool = False
    keep: int | None = None
    """How many of the passing nodes a filter answers with; ``None`` for all."""
    refusals: Refusals = "always"
    """When a filter's answer lists refused nodes with their reasons."""
    turns: Turns = field(default_factory=Turns)
    journal: Journal = field(default_factory=Journal)
    generation: int = 1

    def __post_init__(self) -> None:
        self._warnings = Sparingly()
        self.spelling = Spelling()

    def filter(
        self,
        body: bytes,
        cluster: Snapshot | None,
        attempt: Attempt,
        *,
        readings: Readings = NO_READINGS,
        known: FindHooks = nothing_known,
    ) -> Answer:
        """Answer a filter request: which nodes pass."""
        args = decode(body, v1.ExtenderArgs)
        pod = pod_of(args)
        attempt.pod = pod.key
        policies, cluster = settled(self.policies, pod, cluster)
        if not interested(policies, pod, shadows=True):
            return Answer(encode(answer.pass_all(asked_as_sent(args))))
        asked, question = read_question(args, pod, cluster, readings, attempt.now, known=known)
        decision, cut = self.filtered(policies, question, attempt)
        judged = Judged(question, decision, self.journal.next_number(), asked.nodes is None, cut)
        write = partial(self._record_filter, judged, attempt)
        if self.observe:
            return Answer(encode(answer.pass_all(asked)), judged=judged, write_down=write)
        if decision.error:
            error = encode(answer.filter_error(decision.error))
            return Answer(error, "error", decision.error, judged=judged, write_down=write)
        passes = bool(decision.passed.any())
        every = not passes or self.tells_refusals(self._turn(pod, attempt))
        told = answer.filter_answer(
            asked,
            decision,
            cut,
            spelling=self.spelling,
            failed_nodes_heeded=self.failed_nodes_heeded,
            refusals=every,
        )
        if cut is not None:
            # As in prioritize: a policy that failed to score has no opinion, and the pod goes on.
            said = "error" if cut.error else "ok"
            return Answer(
                told,
                said,
                cut.error,
                not_in_view=decision.not_in_view,
                judged=judged,
                cut_for=pod.uid,
                write_down=write,
            )
        refused = None if passes else Refused(pod, _helped_by(decision))
        missing = decision.not_in_view
        less = not every and (bool(missing) or not decision.passed.all())
        return Answer(
            told,
            not_in_view=missing,
            refused=refused,
            judged=judged,
            cut_for=pod.uid if less and self.refusals == "again" else "",
            write_down=write,
        )

    def tells_refusals(self, turn: int) -> bool:
        """Whether an answer with passing nodes lists the refused ones; ``turn`` counts shortened answers."""
        return self.refusals == "always" or (self.refusals == "again" and turn > 0)

    def turn(self, pod: Pod) -> int:
        """How many shortened answers the pod got; 1 without a UID, so that it gets everything."""
        return self.turns.of(pod.uid) if pod.uid else 1

    def _turn(self, pod: Pod, attempt: Attempt) -> int:
        """`turn`, kept in the attempt so that a replay repeats it; looked up only where it matters."""
        if attempt.turn is None and self.refusals == "again":
            attempt.turn = self.turn(pod)
        return attempt.turn or 0

    def filtered(
        self, policies: Sequence[Policy], question: Question, attempt: Attempt
    ) -> tuple[Decision, Decision | None]:
        """The filter's decision, and with `keep` the decision which of the passing nodes to answer with."""
        if self.keep is None or self.observe:
            return filter_nodes(policies, question, attempt), None
        return filter_and_keep(policies, question, attempt, keep=self.keep, turns=self.turns)

    def prioritize(
        self,
        body: bytes,
        cluster: Snapshot | None,
        attempt: Attempt,
        *,
        readings: Readings = NO_READINGS,
        known: FindHooks = nothing_known,
    ) -> Answer:
        """Answer a prioritize request: a score for each node."""
        args = decode(body, v1.ExtenderArgs)
        pod = pod_of(args)
        attempt.pod = pod.key
        if not self.scores(pod):
            return Answer(encode(answer.no_priorities(asked_in(args))))
        policies, cluster = settled(self.policies, pod, cluster)
        asked, question = read_question(args, pod, cluster, readings, attempt.now, known=known)
        return self._scored(policies, asked, question, attempt)

    def scores(self, pod: Pod) -> bool:
        """Whether any policy scores nodes for this pod."""
        return any(p.of_kind("score") for p in interested(self.policies, pod, shadows=True))

    def prioritize_passed(self, filtered: Judged, attempt: Attempt) -> Answer:
        """The answer to the prioritize that will follow this filter, over the nodes that passed."""
        question = filtered.question
        attempt.pod = question.pod.key
        rows = filtered.decision.passed.nonzero()[0]
        names = filtered.decision.passed_names
        question = msgspec.structs.replace(question, nodes=question.nodes.take(rows, names), now=attempt.now)
        return self._scored(self.policies, Asked(names, None, wants_names=True), question, attempt)

    def _scored(
        self, policies: Sequence[Policy], asked: Asked, question: Question, attempt: Attempt
    ) -> Answer:
        decision = score_nodes(policies, question, attempt)
        judged = Judged(question, decision, self.journal.next_number(), asked.nodes is None)
        write = partial(self._record_scores, judged, attempt)
        if self.observe:
            return Answer(encode(answer.no_priorities(asked)), judged=judged, write_down=write)
        # A prioritize answer has no field for an error: a policy that failed has no opinion.
        body = answer.priorities_answer(asked, decision, spelling=self.spelling)
        said = "error" if decision.error else "ok"
        return Answer(body, said, decision.error, judged=judged, write_down=write)

    def preempt(
        self, body: bytes, cluster: Snapshot | None, attempt: Attempt, *, readings: Readings = NO_READINGS
    ) -> Answer:
        """Answer a preempt request: the candidates whose eviction would let the pod pass."""
        args = decode(body, v1.ExtenderPreemptionArgs)
        pod = preemptor(args)
        attempt.pod = pod.key
        candidates, violations, sent = candidates_in(args)
        kept: Sequence[Candidate] = candidates
        policies, cluster = settled(self.policies, pod, cluster)
        if interested(policies, pod, shadows=True):
            cluster = (cluster or Snapshot.build([], None)).with_readings(readings)
            question = Question(pod, cluster.nodes, cluster, attempt.now)
            decision = choose_candidates(policies, question, candidates, victims=sent, attempt=attempt)
            self.metrics.ran(attempt)
            self._record_preemption(decision)
            kept = candidates if self.observe else decision.kept
        return Answer(encode(answer.victims(kept, violations)))

    def about(self, verb: str, body: bytes) -> tuple[Pod, list[str], set[str]]:
        """The pod and the node names of a request, and the sources that its policies read."""
        if verb == "preempt":
            candidates = decode(body, v1.ExtenderPreemptionArgs)
            pod, names = preemptor(candidates), [each.node for each in candidates_in(candidates)[0]]
        else:
            args = decode(body, v1.ExtenderArgs)
            pod, names = pod_of(args), asked_in(args).names
        return pod, names, sources_for(self.policies, pod)

    async def bind(self, body: bytes, binder: Binder | None) -> Answer:
        """Answer a bind request by binding the pod through the API server."""
        args = decode(body, v1.ExtenderBindingArgs)
        note_pod(f"{args.pod_namespace}/{args.pod_name}", node=args.node)
        error = NO_BINDER
        if binder is not None:
            try:
                await binder.bind(
                    namespace=args.pod_namespace, name=args.pod_name, uid=args.pod_uid, node=args.node
                )
                error = ""
                self.turns.forget(args.pod_uid)
            except Exception as refused:
                error = str(refused) or type(refused).__name__
        who = PodRef(args.pod_namespace, args.pod_name, args.pod_uid, {}, {}, 0, "")
        entry = self.journal.note("bind", who, generation=self.generation, error=error, node=args.node)
        if error:
            text = f"bind {who.key} to {args.node}: {error}"
            about: dict[str, str | int] = {"pod": who.key, "node": args.node, "decision": entry.number}
            self._warnings.warn(log, f"bind {who.key}", text, **about)
        return Answer(encode(v1.ExtenderBindingResult(error)), "error" if error else "ok", error)

    def commit(
        self, pod: Pod, node: str, cluster: Snapshot, attempt: Attempt, *, readings: Readings = NO_READINGS
    ) -> Commitment:
        """Recheck the pod on its node before the bind, and allocate what it gets there."""
        cluster = cluster.with_readings(readings)
        question = Question(pod, cluster.nodes, cluster, attempt.now)
        commitment = commit(self.policies, question, node, attempt)
        self.metrics.ran(attempt)
        if commitment.decision is not None:
            self._record("recheck", commitment.decision)
        # With --observe nothing is refused, but the pod's allocation must still be written down.
        return replace(commitment, refusal="") if self.observe else commitment

    def untouched(self, verb: str, body: bytes) -> bytes | None:
        """The answer that changes nothing; ``None`` for a bind and for a request that cannot be decoded."""
        try:
            if verb == "filter":
                return encode(answer.pass_all(asked_as_sent(decode(body, v1.ExtenderArgs))))
            if verb == "prioritize":
                return encode(answer.no_priorities(asked_in(decode(body, v1.ExtenderArgs))))
            if verb == "preempt":
                candidates, violations, _ = candidates_in(decode(body, v1.ExtenderPreemptionArgs))
                return encode(answer.victims(candidates, violations))
        except WireError as error:
            log.debug("%s: nothing to pass on: %s", verb, error)
        return None

    def _record_filter(self, judged: Judged, attempt: Attempt) -> None:
        self.metrics.ran(attempt)
        self._record("filter", judged.decision, judged.number)
        if judged.cut is not None:
            self._record("keep", judged.cut)

    def _record_scores(self, judged: Judged, attempt: Attempt) -> None:
        self.metrics.ran(attempt)
        self._record("prioritize", judged.decision, judged.number)

    def _record(self, verb: str, decision: Decision, number: int | None = None) -> None:
        """Count the decision and write it into the journal, under ``number`` if it has one already."""
        if decision.kept is None:
            self.metrics.decided(verb, decision, observe=self.observe)
        else:
            self.metrics.left_out(len(decision.nodes) - len(decision.kept))
        entry = self.journal.write(
            verb, decision, generation=self.generation, observe=self.observe, number=number
        )
        for outcome in decision.failures:
            if outcome.failure:
                text = f"{outcome.failure.text} (pod {decision.pod.key}, {verb})"
                key = f"{outcome.hook.title} {outcome.failure.kind}"
                self._warnings.warn(log, key, text, pod=decision.pod.key, decision=entry.number)
        level = logging.INFO if self.observe else logging.DEBUG
        if log.isEnabledFor(level):
            mode = "observe: " if self.observe else ""
            told = _told(decision, would=self.observe)
            extra = {"pod": decision.pod.key, "decision": entry.number}
            log.log(level, "%s%s %s: %s", mode, verb, decision.pod.key, told, extra=extra)

    def _record_preemption(self, decision: PreemptDecision) -> None:
        self.metrics.preempted(decision, observe=self.observe)
        left_out, would_drop = (
            tuple((each.candidate.node, each.policy, each.text) for each in dropped)
            for dropped in (decision.dropped, decision.would_drop)
        )
        who = PodRef.of(decision.pod)
        entry = self.journal.note(
            "preempt", who, generation=self.generation, dropped=left_out, would_drop=would_drop
        )
        for failure in decision.failures:
            text = f"{failure.text} (pod {decision.pod.key}, preempt)"
            self._warnings.warn(log, failure.summary, text, pod=decision.pod.key, decision=entry.number)
        for dropped in (*decision.dropped, *decision.would_drop):
            log.info(
                "preempt %s: %s node %s: %s",
                decision.pod.key,
                "would drop" if self.observe or dropped in decision.would_drop else "dropped",
                dropped.candidate.node,
                dropped.text,
                extra={"pod": decision.pod.key, "node": dropped.candidate.node, "decision": entry.number},
            )


def _helped_by(decision: Decision) -> frozenset[str]:
    """What may change the verdicts; empty if one reason does not say, since anything may help there."""
    topics = [reason.helped_by for _, reason, _ in decision.groups()]
    return frozenset().union(*topics) if topics and all(topics) else frozenset()


def _told(decision: Decision, *, would: bool) -> str:
    """One line about the decision, for the log."""
    if decision.error:
        return f"{'would fail' if would else 'failed'}: {decision.error}"
    if decision.kept is not None:
        first = ", ".join(decision.nodes.name(row) for row in decision.kept[:3].tolist())
        return f"keeps {len(decision.kept)} of {len(decision.nodes)} nodes: {first}"
    if decision.total is not None and len(decision.nodes):
        best = decision.total.argsort()[::-1][:3].tolist()
        top = ", ".join(f"{decision.nodes.names[row]} ({decision.total[row]:.0f} of 100)" for row in best)
        return f"{'would prefer' if would else 'prefers'} {top}"
    reasons = [_group(decision, reason, rows) for _, reason, rows in decision.groups()]
    if decision.not_in_view:
        reasons.append(f"{len(decision.not_in_view)} {NOT_IN_VIEW.text}")
    refused = int((~decision.passed).sum()) + len(decision.not_in_view)
    total = len(decision.nodes) + len(decision.not_in_view)
    why = f" ({', '.join(reasons)})" if reasons else ""
    return f"{'would refuse' if would else 'refuses'} {refused} of {total} nodes{why}"


def _group(decision: Decision, reason: Reason, rows: Rows) -> str:
    """``3 too little CPU (node-1: 100m free)``: the count, the reason, and the numbers of one node."""
    first = decision.refusal(int(rows[0]))
    detail = f" ({first.node}: {first.detail})" if first and first.detail else ""
    return f"{len(rows)} {reason.text}{detail}"
