"""Writes the status of a pod that was not scheduled: a condition with the reason, and the nominated node."""

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

    Fails with a conflict (409) if the pod has changed: it may have been bound meanwhile, and would then keep
    a wrong condition for ever. With ``first`` the condition is new, and the time of the change is written.
    ``generation`` is that of the pod in the decision; 0 before Kubernetes 1.33, where pods have none. Needs
    the right to patch ``pods/status``.
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
