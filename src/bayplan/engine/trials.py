"""Runs the filters over many nodes at once, each node without some of its pods (trial evictions).

A filter that reads each node by itself, or counts around it, sees each node as a case of its own, so one pass
over all nodes serves for all. A filter that reads the whole cluster must not see the evictions on other
nodes: only such filters run for one node at a time.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from bayplan.authoring.registry import Policy
from bayplan.engine.cycle import Question, filter_nodes, filters, interested
from bayplan.engine.decision import Decision, Refusal
from bayplan.engine.guard import Attempt, Failure
from bayplan.engine.watched import Watched
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot

Gone = Mapping[str, Collection[str]]
"""UIDs of evicted pods, by their node."""
Coming = Mapping[str, Collection[Pod]]
"""Nominated pods, by the node that is kept for them."""
Texts = tuple[str, ...]
Answer = Refusal | str | None
"""Why a node would refuse the pod, or the error of a policy that failed; ``None`` if the node would pass."""

_NO_PODS: Coming = {}


class Trials:
    """Judges one pod repeatedly, with different pods evicted.

    A node that is kept for other pods must pass both with them and without them.
    """

    def __init__(
        self, policies: Sequence[Policy], question: Question, attempt: Attempt | None = None
    ) -> None:
        hard = [policy.hard for policy in interested(policies, question.pod)]
        self._all = [policy for policy in hard if policy.of_kind("filter")]
        self._order = {id(hook): number for number, (_, hook) in enumerate(filters(self._all))}
        self._near, self._far = self._all, list[Policy]()
        self._question = question
        self._cluster = question.cluster
        self._coming = question.cluster.expected
        self._attempt = attempt
        self.failures: list[Failure] = []
        """Failures of hooks in `answers`."""

    def answers(self, gone: Gone) -> Iterator[tuple[str, Answer]]:
        """The answer for each of these nodes, in any order; lazy, so a caller may stop early."""
        again: dict[str, Collection[str]] = {}
        for node, answer in self._answers(gone, self._coming):
            if answer is None and node in self._coming:
                again[node] = gone[node]
            else:
                yield node, answer
        yield from self._answers(again, _NO_PODS)

    def refusals(self, gone: Gone) -> dict[str, Texts]:
        """The reasons why each node would still refuse the pod; ``()`` if it would not."""
        return {node: _texts(answer) for node, answer in self.answers(gone)}

    def fitting(self, gone: Gone) -> set[str]:
        """The nodes that would pass."""
        found = self._fitting(gone, self._coming)
        again = self._kept(found)
        return found.difference(again) | self._fitting({node: gone[node] for node in again}, _NO_PODS)

    def _kept(self, nodes: Iterable[str]) -> list[str]:
        return [node for node in nodes if node in self._coming] if self._coming else []

    def _answers(self, gone: Gone, coming: Coming) -> Iterator[tuple[str, Answer]]:
        if not gone:
            return
        together = self._together(gone, coming)
        if together is not None:
            self._note_failures(together)
        for row, node in enumerate(gone):
            asked = self._all if together is None else self._to_ask(together, row)
            if asked:
                alone = self._alone(asked, node, gone, coming)
                self._note_failures(alone)
                yield node, alone.error or alone.refusal(0)
            elif together is not None:
                yield node, together.refusal(row)

    def _note_failures(self, decision: Decision) -> None:
        self.failures += [outcome.failure for outcome in decision.failures if outcome.failure]

    def _fitting(self, gone: Gone, coming: Coming) -> set[str]:
        if not gone:
            return set()
        decision = self._together(gone, coming)
        if decision is None:
            return {node for node in gone if _takes(self._alone(self._all, node, gone, coming))}
        passed = decision.passed_names
        return {
            node for node in passed if not self._far or _takes(self._alone(self._far, node, gone, coming))
        }

    def _to_ask(self, decision: Decision, row: int) -> list[Policy]:
        """The policies that must still run for this node, so that its first reason is the right one."""
        if not self._far or decision.passed[row]:
            return self._far
        refuser = self._order[id(decision.outcomes[decision.refused_by[row]].hook)]
        first = min(self._order[id(hook)] for policy in self._far for hook in policy.of_kind("filter"))
        return self._all if first < refuser else []

    def _together(self, gone: Gone, coming: Coming) -> Decision | None:
        """The decision of the filters that read single nodes; ``None`` if one failed, for an unknown node."""
        cluster = self._case(gone, coming)
        decision, looked = self._ask(self._near, cluster, list(gone))
        while looked:
            near = [one for one in self._near if not self._ask([one], cluster, list(gone))[1]]
            # None read the cluster alone, but all together they did: trust none of them.
            self._near = near if len(near) < len(self._near) else []
            kept = set(map(id, self._near))
            self._far = [one for one in self._all if id(one) not in kept]
            decision, looked = self._ask(self._near, cluster, list(gone))
        return None if decision.error else decision

    def _alone(self, policies: list[Policy], node: str, gone: Gone, coming: Coming) -> Decision:
        return self._ask(policies, self._case({node: gone[node]}, coming), [node])[0]

    def _case(self, gone: Gone, coming: Coming) -> Snapshot:
        if not self._cluster.pods_known:
            # Without pods in view, evictions change nothing.
            return self._cluster
        there = {node: coming[node] for node in gone if node in coming} if coming else _NO_PODS
        return self._cluster.cases(gone=gone, coming=there)

    def _ask(self, policies: list[Policy], cluster: Snapshot, names: list[str]) -> tuple[Decision, bool]:
        """The decision, and whether a filter read the cluster beyond a single node."""
        watched = Watched(cluster)
        load = cluster.nodes.load
        if load is not None:
            load.domains_read = False
        nodes = cluster.nodes.take(cluster.find(names), names)
        decision = filter_nodes(
            policies, msgspec.structs.replace(self._question, nodes=nodes, cluster=watched), self._attempt
        )
        looked = watched.looked or (load is not None and load.domains_read)
        return decision, len(names) > 1 and looked


def _takes(decision: Decision) -> bool:
    """Whether the decision's one node passes."""
    return not decision.error and decision.refusal(0) is None


def _texts(answer: Answer) -> Texts:
    if isinstance(answer, Refusal):
        return answer.reason.text, *answer.reason.also
    return (answer,) if answer else ()
