"""Checks the promise ``reads="node"``: that a hook's result for a node depends on that node alone.

A broken promise gives wrong answers without an error. So it is tested on a few nodes before a policy is used,
and again from time to time while answers rely on it. Hooks that could make the promise and do not are found
in the same way.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from bayplan.authoring.registry import Hook, Policy
from bayplan.authoring.verdict import Verdict
from bayplan.engine.cycle import Question, filter_nodes, score_nodes
from bayplan.engine.decision import Decision, Outcome, Rows
from bayplan.engine.guard import Attempt
from bayplan.engine.hook_results import HookResults
from bayplan.engine.node_hooks import NodeHooks
from bayplan.engine.standing import Standing, looks_around
from bayplan.kube.meta import NO_META
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.sources import Latch, Source
from bayplan.snapshot.units import Units

_TRIED = 20
"""How many nodes are judged one by one; enough for a large cluster."""


def tried(policy: Policy, question: Question, attempt: Attempt) -> Iterator[str]:
    """Judge nodes one by one, for a renamed pod; yields a text for each hook that breaks its promise."""
    if not any(hook.spec.reads == "node" for hook in policy.hooks):
        return
    meta = question.pod.metadata or NO_META
    other = msgspec.structs.replace(meta, name=f"{meta.name}-again", uid=f"{meta.uid}-again")
    renamed = msgspec.structs.replace(question.pod, metadata=other)
    told: set[str] = set()
    for judge in (filter_nodes, score_nodes):
        whole = judge([policy], question, attempt)
        for row in range(min(len(question.nodes), _TRIED)):
            rows = np.array([row], dtype=np.intp)
            alone = msgspec.structs.replace(question, pod=renamed, nodes=question.nodes.take(rows))
            part = judge([policy], alone, attempt)
            for said, fresh in zip(whole.outcomes, part.outcomes, strict=False):
                if said.hook.title in told or not _promised(said, fresh):
                    continue
                if _differ(_part(said, rows), _heard(fresh)).any():
                    # One text for each hook.
                    told.add(said.hook.title)
                    yield f"{said.hook.title}: {_BROKEN.format(node=question.nodes.name(row))}"


def unmade(policy: Policy, question: Question, attempt: Attempt) -> list[Hook] | None:
    """The hooks that could promise ``reads="node"``, as far as these nodes show; ``None`` if one could not.

    The hooks run on nodes without known pods, so a hook that reads pods fails. A hook that takes ``pod`` may
    read pods for another pod than this one, so it rules the promise out; so do a policy's units and sources,
    which may be compared with what runs on a node.
    """
    silent = [hook for hook in policy.hooks if _is_silent(hook)]
    if any(not {"now", "cluster"}.isdisjoint(hook.spec.parameters) or hook.spec.uses_pod for hook in silent):
        return None
    if any(isinstance(each, Units | Source | Latch) for each in policy.columns):
        return None
    promising = replace(policy, hooks=tuple(map(_promising, policy.hooks)))
    if looks_around(promising):
        return None
    bare = Snapshot.build(question.nodes.objects, None)
    asked = msgspec.structs.replace(question, nodes=bare.nodes, cluster=bare)
    failures = [
        f for judge in (filter_nodes, score_nodes) for f in judge([promising], asked, attempt).failures
    ]
    return None if failures or any(tried(promising, asked, attempt)) else silent


def _is_silent(hook: Hook) -> bool:
    return hook.spec.kind in ("filter", "score") and hook.spec.reads == "cluster" and not hook.spec.reads_said


def _promising(hook: Hook) -> Hook:
    return replace(hook, spec=replace(hook.spec, reads="node")) if _is_silent(hook) else hook


_BROKEN = (
    'promises reads="node", and what it says about node {node} depends on the pod\'s name or on other nodes;'
    ' leave out `reads`, or say reads="nodes"'
)


def broken(known: Standing | NodeHooks, decision: Decision, *, scored: bool) -> str:
    """A text about the first hook whose result differs from what is known; ``""`` if none does."""
    rows = decision.nodes.rows
    for said, outcome in _pairs(known, decision.outcomes, scored=scored):
        if said.title != outcome.hook.title:
            return ""
        if outcome.failure is not None:
            continue
        scores = None if said.scores is None else said.scores[rows]
        differs = _differ((said.verdict_on(rows), scores), _heard(outcome))
        if differs.any():
            return f"{said.title}: {_BROKEN.format(node=decision.nodes.name(int(differs.argmax())))}"
    return ""


def _pairs(
    known: Standing | NodeHooks, outcomes: Iterable[Outcome], *, scored: bool
) -> Iterable[tuple[HookResults, Outcome]]:
    """What is known of each hook, beside its outcome."""
    if isinstance(known, NodeHooks):
        return [(known.results[id(o.hook)], o) for o in outcomes if id(o.hook) in known.results]
    return zip(known.scores if scored else known.filters, outcomes, strict=False)


_Heard = tuple[Verdict | None, NDArray[np.float64] | None]


def _promised(said: Outcome, fresh: Outcome) -> bool:
    same = said.hook is fresh.hook and not said.failure and not fresh.failure
    return same and said.hook.spec.reads == "node"


def _heard(outcome: Outcome) -> _Heard:
    return outcome.verdict, None if outcome.score is None else outcome.score.scores


def _part(outcome: Outcome, rows: Rows) -> _Heard:
    verdict, scores = _heard(outcome)
    if verdict is not None:
        verdict = Verdict(verdict.codes[rows], verdict.reasons)
    return verdict, None if scores is None else scores[rows]


def _differ(known: _Heard, fresh: _Heard) -> NDArray[np.bool_]:
    """For each node, whether two results of a hook differ."""
    verdict, now = known[0], fresh[0]
    if verdict is not None and now is not None:
        if verdict.reasons == now.reasons:
            return np.not_equal(verdict.codes, now.codes)
        # A hook that is called per node lists its reasons in the order in which it gave them.
        both = [[each.reason(row) for row in range(len(each.codes))] for each in (verdict, now)]
        return np.array([one != other for one, other in zip(*both, strict=True)], dtype=np.bool_)
    scores, numbers = known[1], fresh[1]
    if scores is not None and numbers is not None:
        same: NDArray[np.bool_] = np.isclose(scores, numbers, rtol=1e-9, equal_nan=True)
        return ~same
    # A hook without any opinion has no scores at all, instead of NaN for each node.
    opinions = [not np.isnan(each).all() for each in (scores, numbers) if each is not None]
    return np.array([any(opinions)])
