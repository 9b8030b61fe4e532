"""Runs the ``protect`` and ``victims`` hooks: which pods must not be evicted, and what evictions cost.

A protected victim, or a group of victims that a ``victims`` hook refuses, is an *objection* to the candidate.
Other candidates get a price from each hook; the cheapest are kept.
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
    """Why pods must not be evicted, and which policy says so."""

    policy: str
    text: str
    of_node: str = ""
    """The text about the node, without names of pods: equal texts are counted."""


class Witness:
    """The ``protect`` and ``victims`` hooks of these policies, for one incoming pod."""

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
        """The first objection of a ``protect`` hook to evicting one of these pods."""
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
        """The price of evicting these pods, from each ``victims`` hook, or an objection."""
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
        """The policy's prepared value for this pod, made once for all candidates."""
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
    """A node whose victims cost more than those on another node."""

    node: str
    by: str
    """The cheaper node."""
    hook: int | None
    """The index of the hook whose price decided; ``None`` if broken budgets did."""


def cheapest(
    violations: Mapping[str, int], prices: Mapping[str, Sequence[Price]]
) -> tuple[list[str], list[Outbid]]:
    """The nodes whose victims cost least, by each hook's price in turn, and the nodes that were outbid.

    A node without a price stays. ``violations`` has the number of broken budgets of each node, ``prices``
    each hook's price.
    """
    hooks = max(map(len, prices.values()), default=0)
    rounds: list[tuple[int | None, dict[str, Price]]] = [
        (hook, {node: said[hook] for node, said in prices.items()}) for hook in range(hooks)
    ]
    if any(price is not None for said in prices.values() for price in said):
        # A PodDisruptionBudget outweighs any price of a policy.
        rounds.insert(0, (None, {node: (float(broken),) for node, broken in violations.items()}))
    left = list(violations)
    outbid: list[Outbid] = []
    for hook, said in rounds:
        named = [(price, node) for node in left if (price := said.get(node)) is not None]
        lowest, by = min(named, key=lambda one: one[0], default=(None, ""))
        outbid += [Outbid(node, by, hook) for price, node in named if price != lowest]
        left = [node for node in left if said.get(node) in (None, lowest)]
    return left, outbid
