"""What the filters would say of many nodes at once, each without some of its pods.

A rule that reads each node by itself, or counts around it, sees every node as a case of its own: one pass
over all nodes is then as good as a pass for each. A rule that looks at the whole cluster must not see the
evictions of other nodes: it is asked about one node at a time, and it alone is.
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
"""UIDs of pods that have left, by the node that they were on."""
Coming = Mapping[str, Collection[Pod]]
"""Pods that are not there yet, by the node that is kept for them."""
Texts = tuple[str, ...]
Answer = Refusal | str | None
"""Why a node would refuse the pod, or what failed when that was asked; ``None`` where it would take it."""

_NOBODY: Coming = {}


class Trials:
    """Asks about one pod, again and again, with different pods gone.

    Where a node is kept for somebody, it must take the pod both with him there and without him.
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
        """Of the hooks whose word would have counted in `answers`."""

    def answers(self, gone: Gone) -> Iterator[tuple[str, Answer]]:
        """What becomes of the pod on each of these nodes, in any order; who has heard enough may stop."""
        again: dict[str, Collection[str]] = {}
        for node, answer in self._answers(gone, self._coming):
            if answer is None and node in self._coming:
                again[node] = gone[node]
            else:
                yield node, answer
        yield from self._answers(again, _NOBODY)

    def refusals(self, gone: Gone) -> dict[str, Texts]:
        """Why each node would still refuse the pod; ``()`` where it would not."""
        return {node: _texts(answer) for node, answer in self.answers(gone)}

    def fitting(self, gone: Gone) -> set[str]:
        """The nodes that would take the pod."""
        found = self._fitting(gone, self._coming)
        again = self._kept(found)
        return found.difference(again) | self._fitting({node: gone[node] for node in again}, _NOBODY)

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
        """Who else has to be asked about this node, for the first reason in their order."""
        if not self._far or decision.passed[row]:
            return self._far
        refuser = self._order[id(decision.outcomes[decision.refused_by[row]].hook)]
        first = min(self._order[id(hook)] for policy in self._far for hook in policy.of_kind("filter"))
        return self._all if first < refuser else []

    def _together(self, gone: Gone, coming: Coming) -> Decision | None:
        """What those say who see one node only; ``None`` where one of them failed: nobody knows for which."""
        cluster = self._case(gone, coming)
        decision, looked = self._ask(self._near, cluster, list(gone))
        while looked:
            near = [one for one in self._near if not self._ask([one], cluster, list(gone))[1]]
            # Nobody alone, and yet all together: nobody is to be trusted.
            self._near = near if len(near) < len(self._near) else []
            kept = set(map(id, self._near))
            self._far = [one for one in self._all if id(one) not in kept]
            decision, looked = self._ask(self._near, cluster, list(gone))
        return None if decision.error else decision

    def _alone(self, policies: list[Policy], node: str, gone: Gone, coming: Coming) -> Decision:
        return self._ask(policies, self._case({node: gone[node]}, coming), [node])[0]

    def _case(self, gone: Gone, coming: Coming) -> Snapshot:
        if not self._cluster.pods_known:
            # Nobody sees who leaves.
            return self._cluster
        there = {node: coming[node] for node in gone if node in coming} if coming else _NOBODY
        return self._cluster.cases(gone=gone, coming=there)

    def _ask(self, policies: list[Policy], cluster: Snapshot, names: list[str]) -> tuple[Decision, bool]:
        """The answer, and whether somebody saw more than one node at a time."""
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
    """Whether the one node that was asked about would do."""
    return not decision.error and decision.refusal(0) is None


def _texts(answer: Answer) -> Texts:
    if isinstance(answer, Refusal):
        return answer.reason.text, *answer.reason.also
    return (answer,) if answer else ()
