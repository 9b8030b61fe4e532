"""Turns decisions into the answers of extender v1."""

from collections.abc import Iterable, Sequence
from itertools import compress, repeat

import numpy as np
from msgspec import Raw, Struct

from bayplan.engine.decision import NOT_IN_VIEW, Decision
from bayplan.engine.preempt import Candidate
from bayplan.runtimes.extender import assemble
from bayplan.runtimes.extender.assemble import Spelling
from bayplan.snapshot.lookup import MANY
from bayplan.wire import v1
from bayplan.wire.codec import encode
from bayplan.wire.scale import to_wire, wire_scores


class Asked(Struct, frozen=True):
    """The nodes of a request, in its order, and whether the answer has names or full nodes."""

    names: list[str]
    nodes: v1.NodeList | None
    """The full nodes, if the caller is not ``nodeCacheCapable``."""
    wants_names: bool

    @property
    def items(self) -> list[Raw]:
        """The JSON of each full node, in the order of ``names``."""
        return (self.nodes.items if self.nodes else None) or []


def pass_all(asked: Asked) -> v1.FilterResult:
    """The answer in which every node passes, unchanged."""
    names = asked.names if asked.wants_names else None
    nodes = None if asked.nodes is None else v1.NodeList(asked.nodes.metadata, asked.items)
    return v1.FilterResult(nodes, names, {}, {})


def filter_result(
    asked: Asked,
    decision: Decision,
    cut: Decision | None = None,
    *,
    failed_nodes_heeded: bool,
    refusals: bool = True,
) -> v1.FilterResult:
    """The filter answer: each node of the request in exactly one of the three lists.

    ``cut`` leaves passing nodes out; without ``refusals`` the refused nodes are left out.

    Up to 1.37 kube-scheduler dry-runs preemption on FailedNodes, finds no victim (the nodes pass its own
    filters) and reports an error each time; for these versions all refusals are unresolvable.
    """
    passed = decision.passed
    if cut is None and passed.all() and not decision.not_in_view:
        return pass_all(asked)
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    names = decision.nodes.names
    if refusals:
        unresolvable = dict.fromkeys(decision.not_in_view, NOT_IN_VIEW.text)
        for _, reason, rows in decision.groups():
            refused = failed if reason.preemptible and failed_nodes_heeded else unresolvable
            refused.update(dict.fromkeys(map(names.__getitem__, rows.tolist()), reason.text))
    if cut is not None and cut.kept is not None:
        rows_told = np.flatnonzero(passed)[np.sort(cut.kept)].tolist()
        told = [names[row] for row in rows_told] if asked.wants_names else None
        part = None
        if asked.nodes is not None:
            part = v1.NodeList(asked.nodes.metadata, [asked.items[row] for row in rows_told])
        return v1.FilterResult(part, told, failed, unresolvable)
    nodes = None
    if asked.nodes is not None:
        # The node table was built from these items, row by row.
        nodes = v1.NodeList(asked.nodes.metadata, list(compress(asked.items, decision.passed.tolist())))
    passed_names = decision.passed_names if asked.wants_names else None
    return v1.FilterResult(nodes, passed_names, failed, unresolvable)


def filter_answer(
    asked: Asked,
    decision: Decision,
    cut: Decision | None = None,
    *,
    spelling: Spelling,
    failed_nodes_heeded: bool,
    refusals: bool = True,
) -> bytes:
    """`filter_result` as bytes; assembled without a JSON encoder if no name needs escapes."""
    if asked.nodes is not None or decision.not_in_view or not spelling.is_plain(decision.nodes.every_name):
        result = filter_result(
            asked,
            decision,
            cut,
            failed_nodes_heeded=failed_nodes_heeded,
            refusals=refusals,
        )
        return encode(result)
    told: Sequence[str]
    if cut is not None and cut.kept is not None:
        told = [cut.nodes.name(place) for place in sorted(cut.kept.tolist())]
    else:
        told = decision.passed_names
    failed = unresolvable = ""
    if refusals:
        failed, unresolvable = assemble.refusals(decision, heeded=failed_nodes_heeded)
    return assemble.filter_answer(assemble.quoted(told), failed, unresolvable)


def priorities_answer(asked: Asked, decision: Decision, *, spelling: Spelling) -> bytes:
    """`priorities` as bytes; assembled without a JSON encoder if no name needs escapes."""
    plain = bool(asked.names) and not decision.not_in_view and decision.total is not None
    if decision.total is None or not (plain and spelling.is_plain(decision.nodes.every_name)):
        return encode(priorities(asked, decision))
    if asked.nodes is None and len(asked.names) >= MANY:
        every, rows = decision.nodes.origin
        lines = spelling.host_lines(every)
        if lines is not None:
            return lines.answer(rows, wire_scores(decision.total))
    return assemble.priorities_answer(asked.names, to_wire(decision.total))


def filter_error(text: str) -> v1.FilterResult:
    """The filter answer with an error: kube-scheduler shows the text and tries the pod again."""
    return v1.FilterResult(None, None, {}, {}, text)


def priorities(asked: Asked, decision: Decision) -> list[v1.HostPriority]:
    """A score for each node of the request; 0 for nodes that are not in view."""
    if decision.total is None:
        return no_priorities(asked)
    scores = to_wire(decision.total)
    if not decision.not_in_view:
        return list(map(v1.HostPriority, asked.names, scores))
    known = dict(zip(decision.nodes.names, scores, strict=True))
    return [v1.HostPriority(name, known.get(name, 0)) for name in asked.names]


def no_priorities(asked: Asked) -> list[v1.HostPriority]:
    """A score of 0 for each node: no opinion."""
    return list(map(v1.HostPriority, asked.names, repeat(0)))


def victims(kept: Iterable[Candidate], violations: Sequence[tuple[str, int]]) -> v1.ExtenderPreemptionResult:
    """The preempt answer: the candidates that are kept, each with its victims as they were sent."""
    counts = dict(violations)
    return v1.ExtenderPreemptionResult(
        {
            candidate.node: v1.MetaVictims(
                [v1.MetaPod(uid) for uid in candidate.victims], counts.get(candidate.node, 0)
            )
            for candidate in kept
        }
    )
