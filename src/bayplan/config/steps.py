"""Every way in which hooks are called, filters apart, and what a policy does wrong in each."""

from collections.abc import Iterator
from dataclasses import replace

import msgspec

from bayplan.authoring.registry import Policy
from bayplan.config.made_up import plain_pod
from bayplan.engine.commit import commit, commits
from bayplan.engine.cycle import Question, score_nodes
from bayplan.engine.decision import Decision
from bayplan.engine.entering import Entrance
from bayplan.engine.guard import Attempt
from bayplan.engine.membership import membership
from bayplan.engine.preempt import Candidate, choose_candidates
from bayplan.engine.promise import tried
from bayplan.kube.meta import NO_META
from bayplan.kube.pod import NO_SPEC, Pod, PodStatus

# Enough of a large cluster for what is asked node by node.
_SOME = 20


def _scored(policy: Policy, question: Question, attempt: Attempt) -> Iterator[str]:
    yield from failures_of(score_nodes([policy], question, attempt))


def failures_of(decision: Decision) -> Iterator[str]:
    """What hooks did wrong."""
    return (outcome.failure.text for outcome in decision.failures if outcome.failure)


def _committed(policy: Policy, question: Question, attempt: Attempt) -> Iterator[str]:
    if question.cluster.pods_known and commits([policy]):
        for name in question.nodes.names[:_SOME]:
            yield from (failure.text for failure in commit([policy], question, name, attempt).failures)


def _ganged(policy: Policy, question: Question, attempt: Attempt) -> Iterator[str]:
    for hook in policy.of_kind("gang"):
        said = membership([replace(policy, hooks=(hook,))], question.pod, attempt)
        yield from (failure.text for _, failure in said.failures)


def _preempted(policy: Policy, question: Question, attempt: Attempt) -> Iterator[str]:
    if not policy.of_kind("protect") and not policy.of_kind("victims"):
        return
    names = question.nodes.names[:_SOME]
    plain = [plain_pod(f"victim-of-{name}", node=name) for name in names]
    yield from _chosen(policy, question, plain, attempt)
    for name in names[:1]:
        asking = msgspec.structs.replace(question, pod=plain_pod())
        yield from _chosen(policy, asking, [_placed(question.pod, name)], attempt)


def _chosen(policy: Policy, question: Question, victims: list[Pod], attempt: Attempt) -> Iterator[str]:
    candidates = [Candidate(victim.node_name, (victim.uid,)) for victim in victims]
    known = {victim.uid: victim for victim in victims}
    chosen = choose_candidates([policy], question, candidates, victims=known, attempt=attempt)
    yield from (failure.text for failure in chosen.failures)


def _placed(pod: Pod, node: str) -> Pod:
    """The pod on that node, to be evicted for another."""
    meta = msgspec.structs.replace(pod.metadata or NO_META, uid=f"{pod.uid or pod.key}-placed")
    spec = msgspec.structs.replace(pod.spec or NO_SPEC, node_name=node)
    return Pod(metadata=meta, spec=spec, status=PodStatus(phase="Running"))


def _entered(policy: Policy, question: Question, attempt: Attempt) -> Iterator[str]:
    for hook in (*policy.of_kind("gate"), *policy.of_kind("order")):
        answer = Entrance([replace(policy, hooks=(hook,))]).ask(question.pod, question.cluster, attempt)
        yield from (failure.text for _, failure in answer.failures)


# Not `bound`: it is there to tell somebody, and nothing was bound.
STEPS = (_scored, tried, _committed, _ganged, _preempted, _entered)
