"""What the filters would say of many nodes at once, each without some of its pods.

A rule that reads each node by itself, or counts around it, sees every node as a case of its own: one pass
over all nodes is then as good as a pass for each. A rule that looks at the whole cluster must not see the
evictions of other nodes: it is asked about one node at a time, and it alone is.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from bayplan.authoring.registry import Policy
from bayplan.engine.cycle import Question, filter_nodes, filters, interested
from bayplan.engine.decision import Decision
from bayplan.engine.guard import Attempt
from bayplan.engine.watched import Watched
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot

Gone = Mapping[str, Collection[str]]
"""UIDs of pods that have left, by the node that they were on."""
Coming = Mapping[str, Collection[Pod]]
"""Pods that are not there yet, by the node that is kept for them."""
Texts = tuple[str, ...]

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

    def refusals(self, gone: Gone) -> dict[str, Texts]:
        """Why each node would still refuse the pod; ``()`` where it would not."""
        found = self._refusals(gone, self._coming)
        again = self._kept(node for node, texts in found.items() if not texts)
        return found | self._refusals({node: gone[node] for node in again}, _NOBODY)

    def fitting(self, gone: Gone) -> set[str]:
        """The nodes that would take the pod."""
        found = self._fitting(gone, self._coming)
        again = self._kept(found)
        return found.difference(again) | self._fitting({node: gone[node] for node in again}, _NOBODY)

    def _kept(self, nodes: Iterable[str]) -> list[str]:
        return [node for node in nodes if node in self._coming] if self._coming else []

    def _refusals(self, gone: Gone, coming: Coming) -> dict[str, Texts]:
        if not gone:
            return {}
        decision = self._together(gone, coming)
        if decision is None:
            return {node: self._alone(self._all, node, gone, coming) for node in gone}
        found = {}
        for row, node in enumerate(gone):
            asked = self._to_ask(decision, row)
            found[node] = self._alone(asked, node, gone, coming) if asked else _texts(decision, row)
        return found

    def _fitting(self, gone: Gone, coming: Coming) -> set[str]:
        if not gone:
            return set()
        decision = self._together(gone, coming)
        if decision is None:
            return {node for node in gone if not self._alone(self._all, node, gone, coming)}
        passed = decision.passed_names
        return {node for node in passed if not self._far or not self._alone(self._far, node, gone, coming)}

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

    def _alone(self, policies: list[Policy], node: str, gone: Gone, coming: Coming) -> Texts:
        decision, _ = self._ask(policies, self._case({node: gone[node]}, coming), [node])
        return (decision.error,) if decision.error else _texts(decision, 0)

    def _case(self, gone: Gone, coming: Coming) -> Snapshot:
        there = {node: coming[node] for node in gone if node in coming} if coming else _NOBODY
        return self._cluster.cases(gone=gone, coming=there)

    def _ask(self, policies: list[Policy], cluster: Snapshot, names: list[str]) -> tuple[Decision, bool]:
        """The answer, and whether somebody saw more than one node at a time."""
        watched = Watched(cluster)
        load = cluster.nodes.load
        assert load is not None
        load.domains_read = False
        nodes = cluster.nodes.take(cluster.find(names), names)
        decision = filter_nodes(
            policies, msgspec.structs.replace(self._question, nodes=nodes, cluster=watched), self._attempt
        )
        return decision, len(names) > 1 and (watched.looked or load.domains_read)


def _texts(decision: Decision, row: int) -> Texts:
    refusal = decision.refusal(row)
    return (refusal.reason.text, *refusal.reason.also) if refusal else ()
