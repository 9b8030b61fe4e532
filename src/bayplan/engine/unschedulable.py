"""The sentence of a FailedScheduling event: ``0/5 nodes are available: 3 Insufficient cpu, ...``."""

from collections import Counter

from bayplan.authoring.verdict import Reason
from bayplan.engine.decision import NOT_IN_VIEW, Decision

NO_NODES = "no nodes available to schedule pods"


def unschedulable(decision: Decision) -> str:
    """Why no node is left, in kube-scheduler's words and order.

    A reason about the pod itself stands once, without a count; among several, one that no eviction could
    change comes first.
    """
    count = len(decision.nodes) + len(decision.not_in_view)
    head = f"0/{count} nodes are available:"
    if decision.error:
        return f"{head} {decision.error}."
    if not count:
        return NO_NODES
    whole = about_pod(decision)
    if whole is not None:
        return f"{head} {whole.text}."
    counted: Counter[str] = Counter()
    for _, reason, rows in decision.groups():
        for text in (reason.text, *reason.also):
            counted[text] += len(rows)
    if decision.not_in_view:
        counted[NOT_IN_VIEW.text] += len(decision.not_in_view)
    # Sorted as texts, including the counts: "10 x" comes before "2 y".
    told = ", ".join(sorted(f"{number} {text}" for text, number in counted.items()))
    return f"{head} {told}." if told else head


def about_pod(decision: Decision) -> Reason | None:
    """The reason that concerns the pod itself, whatever the node; ``None`` if there is none."""
    found = [
        reason
        for outcome in decision.outcomes
        if outcome.verdict is not None and not outcome.shadow and outcome.verdict.codes.any()
        for reason in outcome.verdict.reasons
        if reason.of_pod
    ]
    return min(found, key=lambda reason: reason.preemptible, default=None)
