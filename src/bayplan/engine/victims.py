"""Asks policies about pods that would be evicted: who is protected, and what it costs.

A victim that a policy protects, or a group of them that it refuses to let go, is an *objection* to the
candidate. What is left has a price for each hook that named one; the cheapest are kept.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bayplan.authoring import lift
from bayplan.authoring.registry import Hook, Policy
from bayplan.authoring.verdict import Reason
from bayplan.engine.cycle import Question
from bayplan.engine.guard import Attempt, Failure, guarded
from bayplan.kube.pod import Pod

Price = tuple[float, ...] | None
"""Numbers that are compared in order; ``None`` for no opinion."""


@dataclass(frozen=True)
class Objection:
    """Why the pods must not be evicted, and who says so."""

    policy: str
    text: str
    of_node: str = ""
    """The same of a node that could be freed, without names of pods: such texts are counted."""


class Witness:
    """The hooks of these policies that look at victims, for one pod that wants a node."""

    def __init__(self, policies: Sequence[Policy], question: Question, attempt: Attempt) -> None:
        self._question = question
        self._attempt = attempt
        self._prepared: dict[int, tuple[Any, Failure | None]] = {}
        self.guards = [(p, hook) for p in policies for hook in p.of_kind("protect")]
        self.pricers = [(p, hook) for p in policies for hook in p.of_kind("victims")]
        self.failures: list[Failure] = []

    @property
    def needs_nodes(self) -> bool:
        """Whether a price depends on the node that the victims are on."""
        return any("node" in hook.spec.parameters for _, hook in self.pricers)

    def protects(self, victims: Sequence[Pod]) -> Objection | None:
        """Who protects one of them."""
        for policy, hook in self.guards:
            for victim in victims:
                reason, failure = self._ask(policy, hook, lift.protects, {"victim": victim})
                if failure is not None and policy.failure_policy == "Fail":
                    return Objection(policy.name, failure.summary, failure.summary)
                if reason is not None:
                    why = "" if reason.text == hook.name else f": {reason.text}"
                    return Objection(
                        policy.name,
                        f"pod {victim.key} is protected by {hook.name}{why}",
                        f"node(s) with pods that are protected by {hook.name}",
                    )
        return None

    def prices(self, victims: Sequence[Pod], node: str) -> list[Price] | Objection:
        """What evicting them costs, hook by hook, or why they must stay."""
        known: dict[str, Any] = {"victims": tuple(victims)}
        if self.needs_nodes:
            cluster = self._question.cluster
            known["node"] = cluster.nodes.row(cluster.rows[node])
        found: list[Price] = []
        for policy, hook in self.pricers:
            said, failure = self._ask(policy, hook, lift.cost, known)
            if failure is not None and policy.failure_policy == "Fail":
                return Objection(policy.name, failure.summary, failure.summary)
            if isinstance(said, Reason):
                return Objection(policy.name, said.text, said.text)
            found.append(said)
        return found

    def _ask(
        self, policy: Policy, hook: Hook, read: Any, known: Mapping[str, Any]
    ) -> tuple[Any, Failure | None]:
        available = {
            "pod": self._question.pod,
            "cluster": self._question.cluster,
            "now": self._question.now,
            "prepared": None,
            **known,
        }
        if "prepared" in hook.spec.parameters:
            available["prepared"], failure = self._ready(policy, available)
            if failure is not None:
                return None, failure
        answer, failure, _ = guarded(hook, self._attempt, lambda: read(hook, available))
        if failure is not None:
            self.failures.append(failure)
        return answer, failure

    def _ready(self, policy: Policy, available: dict[str, Any]) -> tuple[Any, Failure | None]:
        """What the policy prepared for this pod, once for all candidates."""
        known = self._prepared.get(id(policy))
        if known is None:
            ready, failure = None, None
            for hook in policy.of_kind("prepare"):
                ready, failure, _ = guarded(hook, self._attempt, lambda h=hook: h.call(available))  # type: ignore[misc]
                if failure is not None:
                    self.failures.append(failure)
                    break
            known = self._prepared[id(policy)] = (ready, failure)
        return known


@dataclass(frozen=True)
class Outbid:
    """A node whose victims cost more than those of another one."""

    node: str
    by: str
    """The other one."""
    hook: int | None
    """Which of the hooks says so; ``None`` where it would break more budgets."""


def cheapest(
    violations: Mapping[str, int], prices: Mapping[str, Sequence[Price]]
) -> tuple[list[str], list[Outbid]]:
    """The nodes whose victims cost least, by what each hook says in turn, and those without a price.

    Then the others. ``violations`` has the budgets that evictions would break on each node, and ``prices``
    what each hook says of it.
    """
    hooks = max(map(len, prices.values()), default=0)
    rounds: list[tuple[int | None, dict[str, Price]]] = [
        (hook, {node: said[hook] for node, said in prices.items()}) for hook in range(hooks)
    ]
    if any(price is not None for said in prices.values() for price in said):
        # A budget that people set with Kubernetes' own means outweighs any price of ours.
        rounds.insert(0, (None, {node: (float(broken),) for node, broken in violations.items()}))
    left = list(violations)
    outbid: list[Outbid] = []
    for hook, said in rounds:
        named = [(price, node) for node in left if (price := said.get(node)) is not None]
        lowest, by = min(named, key=lambda one: one[0], default=(None, ""))
        outbid += [Outbid(node, by, hook) for price, node in named if price != lowest]
        left = [node for node in left if said.get(node) in (None, lowest)]
    return left, outbid
