"""Before a pod comes into the queue: may it, and where does it stand. Policies say so, one pod at a time.

Of shadow policies nobody is asked: whoever is kept out in their place would not be seen to be.
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
"""News that comes by itself: for whatever looks at the clock."""
WHATEVER = frozenset({"*", TIME})
"""What helps a pod whose gate does not say: anything that happens, and time."""


@dataclass(frozen=True)
class Admission:
    """What was said about one pod."""

    reason: Reason | None = None
    """Why it stays out; ``None`` where it comes in."""
    by: str = ""
    """The policy that keeps it out."""
    key: Key | None = None
    """Where it stands; ``None`` where its priority says that."""
    failures: tuple[tuple[Hook, Failure], ...] = ()

    @property
    def helped_by(self) -> frozenset[str]:
        """What news makes it worth asking again."""
        said = frozenset(self.reason.helped_by if self.reason is not None else ())
        # Whoever writes a policy need not know that pods which come are other news than pods which go.
        return (said | {"placed"} if "pods" in said else said) or WHATEVER


class Entrance:
    """The ``gate`` and ``order`` hooks of one profile."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        deciding = [policy for policy in policies if not policy.shadow]
        self._gates = [(policy, hook) for policy in deciding for hook in policy.of_kind("gate")]
        self._order = one_order(deciding)
        hooks = [hook for _, hook in self._gates]
        self.looks_at_cluster = any("cluster" in hook.spec.parameters for hook in hooks)
        """Whether one of them wants to see the cluster."""
        self._asking = list({id(p): p for p, _ in (*self._gates, *filter(None, [self._order]))}.values())

    def concerns(self, pod: Pod) -> bool:
        """Whether there is anybody to ask about this pod."""
        return any(policy.scope is EVERY_POD or policy.scope.matches(pod) for policy in self._asking)

    def ask(self, pod: Pod, cluster: Snapshot | None, attempt: Attempt) -> Admission:
        """May the pod come in, and where does it stand; gates are asked until one says no."""
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
    """The policy that says who is next, and its hook; `PolicyError` where several do."""
    found = [(policy, hook) for policy in policies for hook in policy.of_kind("order")]
    if len(found) > 1:
        (first, one), (second, other) = found[:2]
        raise PolicyError(
            f"two `order` hooks, and a queue has one order: {one.title} (policy {first.name!r})"
            f" and {other.title} (policy {second.name!r}); take one of them out"
        )
    return found[0] if found else None
