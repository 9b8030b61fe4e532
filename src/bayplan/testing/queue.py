"""Ask a policy about pods that would come into the queue, as ``bayplan schedule`` does."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from bayplan.authoring.hooks import PolicyError
from bayplan.authoring.order_key import priority_key
from bayplan.authoring.registry import Policy
from bayplan.engine.entering import Entrance, one_order
from bayplan.engine.guard import Attempt
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot
from bayplan.testing.run import ready


@dataclass(frozen=True)
class Queued:
    """Which pods are let into the queue, and which are not."""

    order: list[str]
    """Names of the pods that are let in, the next one first."""
    held: dict[str, str]
    """Why the other pods are not let in, by name."""


def queue_up(
    policy: Any,
    pods: Sequence[Pod],
    cluster: Snapshot | None = None,
    *,
    args: dict[str, Any] | None = None,
    now: datetime | None = None,
) -> Queued:
    """Ask the ``gate`` and ``order`` hooks of a policy about pods that come in this order.

    ``policy`` is as for `run_policy`. A hook that fails raises `PolicyError`.
    """
    attempt = Attempt(now=now or datetime.now(UTC))
    whole = cluster if cluster is not None else Snapshot.build([], [])
    line, held = line_up(ready(policy, args), pods, whole, attempt)
    return Queued(order=[pod.name for pod in line], held={pod.name: why for pod, why in held})


def line_up(
    policies: Sequence[Policy], pods: Sequence[Pod], cluster: Snapshot, attempt: Attempt
) -> tuple[list[Pod], list[tuple[Pod, str]]]:
    """The pods that are let in, the next one first; and the others, each with why it is not."""
    one_order(policies)
    entrance = Entrance(policies)
    said = [(pod, entrance.ask(pod, cluster, attempt)) for pod in pods]
    failures = [failure.text for _, each in said for _, failure in each.failures]
    if failures:
        raise PolicyError("\n".join(failures))
    coming = [(pod, each.key) for pod, each in said if each.reason is None]
    let_in = [(pod, priority_key(pod) if key is None else key) for pod, key in coming]
    held = [(pod, each.reason.text) for pod, each in said if each.reason is not None]
    return [pod for pod, _ in sorted(let_in, key=lambda found: found[1])], held
