"""What the filters would say of many nodes at once, each without some of its pods.

A rule that reads each node by itself cannot see what is gone elsewhere: one pass over all nodes is then as
good as a pass for each. A rule that looks around must not see the evictions of other nodes: it is asked about
one node at a time, and it alone is.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from bayplan.authoring.registry import Policy
from bayplan.engine.cycle import Question, filter_nodes, filters, interested
from bayplan.engine.decision import Decision
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot

Gone = Mapping[str, Collection[str]]
"""UIDs of pods that have left, by the node that they were on."""
Texts = tuple[str, ...]

_SAME_WHOEVER_LEAVES = frozenset({"objects", "rows", "find", "pods_known", "unsettled", "looked"})


class Trials:
    """Asks about one pod, again and again, with different pods gone."""

    def __init__(self, policies: Sequence[Policy], pod: Pod, cluster: Snapshot, now: datetime) -> None:
        hard = [
            replace(policy, hooks=tuple(hook for hook in policy.hooks if hook.spec.kind != "prefer"))
            for policy in interested(policies, pod)
        ]
        self._all = [policy for policy in hard if policy.of_kind("filter")]
        self._order = {id(hook): number for number, (_, hook) in enumerate(filters(self._all))}
        self._near, self._far = self._all, list[Policy]()
        self._pod = pod
        self._cluster = cluster
        self._now = now

    def refusals(self, gone: Gone) -> dict[str, Texts]:
        """Why each node would still refuse the pod; ``()`` where it would not."""
        if not gone:
            return {}
        decision = self._together(gone)
        if decision is None:
            return {node: self._alone(self._all, node, gone[node]) for node in gone}
        found = {}
        for row, node in enumerate(gone):
            asked = self._to_ask(decision, row)
            found[node] = self._alone(asked, node, gone[node]) if asked else _texts(decision, row)
        return found

    def fitting(self, gone: Gone) -> set[str]:
        """The nodes that would take the pod."""
        decision = self._together(gone)
        if decision is None:
            return {node for node in gone if not self._alone(self._all, node, gone[node])}
        passed = decision.passed_names
        return {node for node in passed if not self._far or not self._alone(self._far, node, gone[node])}

    def _to_ask(self, decision: Decision, row: int) -> list[Policy]:
        """Who else has to be asked about this node, for the first reason in their order."""
        if not self._far or decision.passed[row]:
            return self._far
        refuser = self._order[id(decision.outcomes[decision.refused_by[row]].hook)]
        first = min(self._order[id(hook)] for policy in self._far for hook in policy.of_kind("filter"))
        return self._all if first < refuser else []

    def _together(self, gone: Gone) -> Decision | None:
        """What those say who see one node only; ``None`` where one of them failed: nobody knows for which."""
        cluster = self._cluster.without_on(gone)
        decision, looked = self._ask(self._near, cluster, list(gone))
        while looked:
            near = [one for one in self._near if not self._ask([one], cluster, list(gone))[1]]
            # Nobody alone, and yet all together: nobody is to be trusted.
            self._near = near if len(near) < len(self._near) else []
            kept = set(map(id, self._near))
            self._far = [one for one in self._all if id(one) not in kept]
            decision, looked = self._ask(self._near, cluster, list(gone))
        return None if decision.error else decision

    def _alone(self, policies: list[Policy], node: str, gone: Collection[str]) -> Texts:
        decision, _ = self._ask(policies, self._cluster.without_on({node: gone}), [node])
        return (decision.error,) if decision.error else _texts(decision, 0)

    def _ask(self, policies: list[Policy], cluster: Snapshot, names: list[str]) -> tuple[Decision, bool]:
        """The answer, and whether somebody saw more than one node at a time."""
        watched = _Watched(cluster)
        load = cluster.nodes.load
        assert load is not None
        load.domains_read = False
        nodes = cluster.nodes.take(cluster.find(names), names)
        decision = filter_nodes(policies, Question(self._pod, nodes, watched, self._now))
        return decision, len(names) > 1 and (watched.looked or load.domains_read)


class _Watched(Snapshot):
    """A cluster that notes whether somebody looked at its pods."""

    looked = False

    def __init__(self, cluster: Snapshot) -> None:
        self.__dict__.update(cluster.__dict__, rows=cluster.rows)

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in _SAME_WHOEVER_LEAVES and not name.startswith("_"):
            self.__dict__["looked"] = True
        return found


def _texts(decision: Decision, row: int) -> Texts:
    refusal = decision.refusal(row)
    return (refusal.reason.text, *refusal.reason.also) if refusal else ()
