"""Evicting a pod for a more important one, as kube-scheduler does: say so in its status, then delete it.

The pod's UID goes along both times: one that was made anew under the same name is another pod.
"""

import time
from datetime import UTC, datetime
from typing import Any

from bayplan.client.errors import ApiError
from bayplan.client.rest import ApiClient, pod_path
from bayplan.kube.pod import Pod

_GONE = 404


async def evict_pod(client: ApiClient, victim: Pod, *, message: str, timeout_seconds: float) -> bool:
    """Delete the pod; whether it was still there to be deleted. Its own grace period counts.

    Both requests together have so many seconds: none goes out later, when somebody else may be who acts.
    Needs the right to patch ``pods/status`` and to delete pods. Not held up by the client's limit: somebody
    more important waits.
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
        # Of a conflict nobody knows: another pod may have the name, or somebody refuses it.
        if error.status == _GONE:
            return False
        raise
    return True
