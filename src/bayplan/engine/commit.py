"""Rechecks a pod on its chosen node before the bind, and allocates what the pod gets there.

The cluster contains every pod that was bound or reserved before, but not the pod itself. `commit` runs the
filters marked ``recheck`` again; `allocate` is for callers that have just filtered in the same cluster.
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
    """Why the pod must not be bound, or the annotations to bind it with."""

    refusal: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    decision: Decision | None = None
    failures: tuple[Failure, ...] = ()


def commits(policies: Sequence[Policy]) -> bool:
    """Whether any of these policies rechecks or allocates at bind."""
    deciding = [policy for policy in policies if not policy.shadow]
    return allocates(deciding) or any(hook.spec.recheck for policy in deciding for hook in policy.hooks)


def allocates(policies: Sequence[Policy]) -> bool:
    """Whether any of these policies has an ``allocate`` hook."""
    return any(policy.of_kind("allocate") for policy in policies if not policy.shadow)


def commit(
    policies: Sequence[Policy], question: Question, node: str, attempt: Attempt | None = None
) -> Commitment:
    """Recheck the pod on the node, and allocate."""
    mine = [
        replace(p, hooks=tuple(h for h in p.hooks if h.spec.recheck or h.spec.kind in _KINDS))
        for p in interested(policies, question.pod)
        if commits([p])
    ]
    return _commit(mine, question, node, attempt or Attempt())


def allocate(
    policies: Sequence[Policy], question: Question, node: str, attempt: Attempt | None = None
) -> Commitment:
    """Allocate on the node, without a recheck.

    Only for a node that passed every filter of these policies in the same cluster as this question's; in any
    other cluster use `commit`.
    """
    mine = [
        replace(p, hooks=tuple(h for h in p.hooks if h.spec.kind in _KINDS))
        for p in interested(policies, question.pod)
        if allocates([p])
    ]
    return _commit(mine, question, node, attempt or Attempt())


def _commit(mine: Sequence[Policy], question: Question, node: str, attempt: Attempt) -> Commitment:
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
    """The refusal's text; "just now" hints that the node had passed the filter before."""
    return f"node {node}: {reason.text}, just now"
