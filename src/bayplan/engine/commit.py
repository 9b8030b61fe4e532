"""The last word before a pod is bound: rules about other pods once more, and what the pod gets.

Run on the one node that was chosen, in a cluster where everybody who came before is in sight and the
pod itself is not. Who has filtered in that very cluster just now need not ask the rules once more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from bayplan.authoring import lift
from bayplan.authoring.registry import Hook, Policy
from bayplan.authoring.verdict import Reason
from bayplan.engine.cycle import Question, filter_to_allocate, interested
from bayplan.engine.decision import NOT_IN_VIEW, Decision
from bayplan.engine.guard import Attempt, Failure, guarded
from bayplan.snapshot.lookup import UNKNOWN_ROW
from bayplan.snapshot.units import Allocation

_KINDS = ("prepare", "allocate")


@dataclass(frozen=True)
class Commitment:
    """Why the pod may not be bound after all, or what is to be written on it."""

    refusal: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    decision: Decision | None = None
    failures: tuple[Failure, ...] = ()


def commits(policies: Sequence[Policy]) -> bool:
    """Whether any of these policies has something to say at bind."""
    deciding = [policy for policy in policies if not policy.shadow]
    return allocates(deciding) or any(hook.spec.recheck for policy in deciding for hook in policy.hooks)


def allocates(policies: Sequence[Policy]) -> bool:
    """Whether any of these policies hands something out."""
    return any(policy.of_kind("allocate") for policy in policies if not policy.shadow)


def commit(
    policies: Sequence[Policy], question: Question, node: str, attempt: Attempt | None = None
) -> Commitment:
    """Whether the pod may be bound to the node, and what it gets there."""
    mine = [
        replace(p, hooks=tuple(h for h in p.hooks if h.spec.recheck or h.spec.kind in _KINDS))
        for p in interested(policies, question.pod)
        if commits([p])
    ]
    return _last_word(mine, question, node, attempt or Attempt())


def allocate(
    policies: Sequence[Policy], question: Question, node: str, attempt: Attempt | None = None
) -> Commitment:
    """What the pod gets on the node, or why it does not get it.

    Only for a node that every filter of these policies let pass in the very cluster of this question: a rule
    is not asked again here. In any other cluster it must be, by `commit`.
    """
    mine = [
        replace(p, hooks=tuple(h for h in p.hooks if h.spec.kind in _KINDS))
        for p in interested(policies, question.pod)
        if allocates([p])
    ]
    return _last_word(mine, question, node, attempt or Attempt())


def _last_word(mine: Sequence[Policy], question: Question, node: str, attempt: Attempt) -> Commitment:
    if not mine:
        return Commitment()
    others = question.cluster.without_on({node: {question.pod.uid}})
    rows = others.find([node])
    if rows[0] == UNKNOWN_ROW:
        return Commitment(f"node {node}: {NOT_IN_VIEW.text}")
    here = msgspec.structs.replace(
        question, nodes=others.nodes.take(rows, [node]), cluster=others, not_in_view=()
    )
    decision, ready = filter_to_allocate(mine, here, attempt)
    failures = tuple(outcome.failure for outcome in decision.failures if outcome.failure)
    refusal = decision.refusal(0)
    if decision.error or refusal:
        text = decision.error or _just_now(node, refusal.reason if refusal else NOT_IN_VIEW)
        return Commitment(text, decision=decision, failures=failures)
    given = _allocate(ready, here, node, attempt)
    return replace(given, decision=decision, failures=failures + given.failures)


def _allocate(ready: Sequence[tuple[Policy, Any]], here: Question, node: str, attempt: Attempt) -> Commitment:
    total = Allocation({})
    failures: list[Failure] = []
    for policy, prepared in ready:
        for hook in policy.of_kind("allocate"):
            given, failure = _ask(hook, here, prepared, attempt)
            if failure is not None:
                failures.append(failure)
                if policy.failure_policy == "Fail":
                    return Commitment(
                        f"policy {policy.name!r} failed: {failure.text}", failures=tuple(failures)
                    )
            elif isinstance(given, Reason):
                return Commitment(_just_now(node, given), failures=tuple(failures))
            elif given is not None:
                total |= given
    annotations = total.annotations() if total.taken or total.annotate else {}
    return Commitment(annotations=annotations, failures=tuple(failures))


def _ask(
    hook: Hook, here: Question, prepared: Any, attempt: Attempt
) -> tuple[Allocation | Reason | None, Failure | None]:
    available = {
        "pod": here.pod,
        "node": here.nodes.row(0),
        "cluster": here.cluster,
        "now": here.now,
        "prepared": prepared,
    }
    given, failure, _ = guarded(hook, attempt, lambda: lift.allocation(hook, available))
    return given, failure


def _just_now(node: str, reason: Reason) -> str:
    """In the words of the filter, and with the hint that the filter had said otherwise."""
    return f"node {node}: {reason.text}, just now"
