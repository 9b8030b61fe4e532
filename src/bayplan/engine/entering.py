"""Runs the ``gate`` and ``order`` hooks: whether a pod may enter the queue, and its place in it.

Shadow policies are not asked: the effect of a gate that does not count could not be shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bayplan.authoring import lift
from bayplan.authoring.hooks import PolicyError
from bayplan.authoring.order_key import Key, order_key
from bayplan.authoring.registry import Hook, Policy
from bayplan.authoring.scope import EVERY_POD
from bayplan.authoring.verdict import Reason
from bayplan.engine.guard import CURRENT_POD, Attempt, Failure, guarded
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot

TIME = "time"
"""The topic of events for gates that read the clock."""
WHATEVER = frozenset({"*", TIME})
"""The topics that may help a pod whose gate names none: any event, and time."""


@dataclass(frozen=True)
class Admission:
    """The result of the ``gate`` and ``order`` hooks for one pod."""

    reason: Reason | None = None
    """Why the pod stays out; ``None`` if it may enter."""
    by: str = ""
    """The policy that keeps the pod out."""
    key: Key | None = None
    """The pod's sort key in the queue; ``None`` to sort by priority."""
    failures: tuple[tuple[Hook, Failure], ...] = ()

    @property
    def helped_by(self) -> frozenset[str]:
        """The topics of events after which the gate is worth asking again."""
        topics = frozenset(self.reason.helped_by if self.reason is not None else ())
        # Policies say "pods" for pods that go and pods that come; the queue has two topics for them.
        return (topics | {"placed"} if "pods" in topics else topics) or WHATEVER


class Entrance:
    """The ``gate`` and ``order`` hooks of one profile."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        deciding = [policy for policy in policies if not policy.shadow]
        self._gates = [(policy, hook) for policy in deciding for hook in policy.of_kind("gate")]
        self._order = one_order(deciding)
        hooks = [hook for _, hook in self._gates]
        self.looks_at_cluster = any("cluster" in hook.spec.parameters for hook in hooks)
        """Whether a gate reads the cluster."""
        self._asking = list({id(p): p for p, _ in (*self._gates, *filter(None, [self._order]))}.values())

    def concerns(self, pod: Pod) -> bool:
        """Whether any ``gate`` or ``order`` hook applies to this pod."""
        return any(policy.scope is EVERY_POD or policy.scope.matches(pod) for policy in self._asking)

    def ask(self, pod: Pod, cluster: Snapshot | None, attempt: Attempt) -> Admission:
        """Ask the gates until one refuses the pod, then the ``order`` hook."""
        token = CURRENT_POD.set(pod.key)
        try:
            return self._ask(pod, cluster, attempt)
        finally:
            CURRENT_POD.reset(token)

    def _ask(self, pod: Pod, cluster: Snapshot | None, attempt: Attempt) -> Admission:
        available = {"pod": pod, "cluster": cluster, "now": attempt.now}
        failures: list[tuple[Hook, Failure]] = []
        for policy, hook in self._gates:
            if not policy.scope.matches(pod):
                continue
            reason, failure, _ = guarded(hook, attempt, lambda hook=hook: lift.gate(hook, available))  # type: ignore[misc]
            if failure is not None:
                failures.append((hook, failure))
                if policy.failure_policy == "Fail":
                    reason = Reason(f"policy {policy.name!r} failed: {failure.text}")
            if reason is not None:
                return Admission(reason, policy.name, failures=tuple(failures))
        key = None
        if self._order is not None and self._order[0].scope.matches(pod):
            hook = self._order[1]
            key, failure, _ = guarded(hook, attempt, lambda: order_key(hook, available))
            if failure is not None:
                failures.append((hook, failure))
        return Admission(key=key, failures=tuple(failures))


def one_order(policies: Sequence[Policy]) -> tuple[Policy, Hook] | None:
    """The policy with an ``order`` hook, and the hook; `PolicyError` if there are several."""
    found = [(policy, hook) for policy in policies for hook in policy.of_kind("order")]
    if len(found) > 1:
        (first, one), (second, other) = found[:2]
        raise PolicyError(
            f"two `order` hooks, and a queue has one order: {one.title} (policy {first.name!r})"
            f" and {other.title} (policy {second.name!r}); take one of them out"
        )
    return found[0] if found else None
