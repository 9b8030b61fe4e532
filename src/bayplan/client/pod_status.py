"""What people read in a pod's status while it waits: why it has no node, and which one is kept for it."""

from datetime import UTC, datetime
from typing import Any

from bayplan.client.rest import ApiClient, pod_path
from bayplan.kube.pod import Pod

_TIMEOUT_SECONDS = 5.0


async def write_unscheduled(
    client: ApiClient,
    pod: Pod,
    *,
    reason: str,
    message: str,
    nominated_node: str | None,
    generation: int,
    first: bool,
    timeout_seconds: float = _TIMEOUT_SECONDS,
) -> None:
    """Set the condition ``PodScheduled`` to False, and ``nominatedNodeName`` unless it is ``None``.

    A conflict (409) where the pod is not as it was any more: bound meanwhile, perhaps, and then this would
    say the opposite of what is true for as long as the pod lives. ``first`` says that the condition was not
    so before: the time of the change is written then. ``generation`` is that of the pod that was judged; 0
    where pods have none, before Kubernetes 1.33. Needs the right to patch ``pods/status``.
    """
    condition: dict[str, Any] = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
    }
    if generation:
        condition["observedGeneration"] = generation
    if first:
        condition["lastTransitionTime"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    status: dict[str, Any] = {"conditions": [condition]}
    if nominated_node is not None:
        status["nominatedNodeName"] = nominated_node or None
    metadata = {"uid": pod.uid}
    if pod.metadata and pod.metadata.resource_version:
        metadata["resourceVersion"] = pod.metadata.resource_version
    await client.patch(
        f"{pod_path(pod.namespace, pod.name)}/status",
        {"metadata": metadata, "status": status},
        kind="strategic",
        timeout_seconds=timeout_seconds,
    )
