"""Place pods one after another as ``bayplan schedule`` would, gangs all together or not at all."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from bayplan.authoring.hooks import PolicyError
from bayplan.engine.guard import Attempt
from bayplan.engine.settle import settle
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot
from bayplan.testing.queue import line_up
from bayplan.testing.run import ready


@dataclass(frozen=True)
class Placed:
    """The nodes of the placed pods, and why other pods were not placed."""

    nodes: dict[str, str]
    """The node of each pod that has one, by the pod's name."""
    refused: dict[str, str]
    """The event messages of the pods that were not placed, by name."""
    annotations: dict[str, dict[str, str]]
    """The annotations of allocations, by pod name."""
    domains: dict[str, str]
    """The rack or zone of each gang that has to be in one, by the gang's name."""
    cluster: Snapshot
    """The cluster with those pods on their nodes."""


def place(
    policy: Any,
    pods: Sequence[Pod],
    cluster: Snapshot,
    *,
    args: dict[str, Any] | None = None,
    now: datetime | None = None,
) -> Placed:
    """Place these pods in their turn, each on a cluster in which those before it have their places.

    ``policy`` is as for `run_policy`; nothing else has a say, so give kube-scheduler's own rules too where
    room matters: ``[*bayplan.Profile.default().policies, mine]``. The turn is as ``order`` hooks say, or the
    higher priority first, and then as given; whom a ``gate`` keeps out is not placed. Of nodes that are
    equally good the first is taken. Nobody is evicted. A hook that fails raises `PolicyError`.
    """
    policies = ready(policy, args)
    attempt = Attempt(now=now or datetime.now(UTC))
    names = {pod.uid: pod.name for pod in pods}
    if len(set(names.values())) < len(pods):
        raise ValueError("two pods have the same name, by which place() tells where each went")
    line, held = line_up(policies, pods, cluster, attempt)
    found = settle(policies, line, cluster, attempt=attempt)
    failed = [ran.hook.title for ran in attempt.ran.values() if ran.failures]
    if failed:
        said = [text for text in found.refused.values() if "failed" in text]
        raise PolicyError("\n".join(dict.fromkeys(said)) or f"{', '.join(failed)} failed")
    return Placed(
        nodes={names[uid]: seat.node for uid, seat in found.seats.items()},
        refused={
            **{pod.name: why for pod, why in held},
            **{names[uid]: why for uid, why in found.refused.items()},
        },
        annotations={names[uid]: dict(s.annotations) for uid, s in found.seats.items() if s.annotations},
        domains={name: domain for (_, name), domain in found.domains.items()},
        cluster=found.cluster,
    )
