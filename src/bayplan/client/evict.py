"""Evicts a pod for one of higher priority, as kube-scheduler does: sets a condition, then deletes the pod.

Both requests have the pod's UID as a precondition, since a new pod may have the same name.
"""

import time
from datetime import UTC, datetime
from typing import Any

from bayplan.client.errors import ApiError
from bayplan.client.rest import ApiClient, pod_path
from bayplan.kube.pod import Pod

_GONE = 404


async def evict_pod(client: ApiClient, victim: Pod, *, message: str, timeout_seconds: float) -> bool:
    """Delete the pod, with its own grace period; false if it was gone already.

    ``timeout_seconds`` is for both requests together: none may be sent later, when another server may hold
    the Lease. Needs the right to patch ``pods/status`` and to delete pods. The client's rate limit does not
    apply, since a pod of higher priority waits.
    """
    deadline = time.monotonic() + timeout_seconds
    path = pod_path(victim.namespace, victim.name)
    condition: dict[str, Any] = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": message,
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    if victim.generation:
        condition["observedGeneration"] = victim.generation
    try:
        await client.request(
            "PATCH",
            f"{path}/status",
            doing=f"marking pod {victim.key} as a target of disruption",
            body={"metadata": {"uid": victim.uid}, "status": {"conditions": [condition]}},
            content_type="application/strategic-merge-patch+json",
            timeout_seconds=timeout_seconds,
            limited=False,
        )
        await client.request(
            "DELETE",
            path,
            doing=f"deleting pod {victim.key}",
            body={"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": victim.uid}},
            timeout_seconds=deadline - time.monotonic(),
            limited=False,
        )
    except ApiError as error:
        # A conflict (409) is ambiguous: another pod may have the name, or a webhook refused the request.
        if error.status == _GONE:
            return False
        raise
    return True
