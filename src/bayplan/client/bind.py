"""Binds a pod to a node, idempotently.

The request has the pod's UID as a precondition, since a new pod may have the same name. A request without an
answer may have worked, so the same request is sent again, and after a conflict (409) the pod is read.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from bayplan.client.errors import ApiError, ConnectError, Unsent
from bayplan.client.rest import ApiClient, pod_path

_RETRY_SECONDS = (0.05, 0.2, 0.5, 1.0)
# The least time to read the pod after a conflict, even at the deadline.
_READ_SECONDS = 0.5


class BindRefused(Exception):
    """The pod was not bound to that node; the text says why."""


class BindUnknown(BindRefused):
    """The outcome is unknown: the pod may have been bound to that node, or may yet be."""


async def bind_pod(
    client: ApiClient,
    *,
    namespace: str,
    name: str,
    uid: str,
    node: str,
    annotations: Mapping[str, str] | None = None,
    unsure: bool = False,
    timeout_seconds: float = 4.0,
) -> None:
    """Bind the pod; returns when it is bound to ``node``, by whomever; else raises `BindRefused`.

    The API server writes the annotations on the pod in the same transaction as its node. ``unsure`` says that
    the outcome of an earlier, equal request is unknown.
    """
    deadline = time.monotonic() + timeout_seconds
    path = f"{pod_path(namespace, name)}/binding"
    binding = _binding(namespace, name, uid, node, annotations)
    doing = f"binding {namespace}/{name} to {node}"
    problem = f"{doing}: no time was left to send it"
    for pause in (*_RETRY_SECONDS, None):
        left = deadline - time.monotonic()
        if left <= 0:
            break
        try:
            # No rate limit: kube-scheduler limits its binds itself, and waiting here would only exceed its
            # timeout.
            await client.request("POST", path, doing=doing, body=binding, timeout_seconds=left, limited=False)
            return
        except ApiError as error:
            if error.status == 409:
                await _settle_conflict(
                    client,
                    namespace=namespace,
                    name=name,
                    uid=uid,
                    node=node,
                    error=error,
                    unsure=unsure,
                    timeout_seconds=max(_READ_SECONDS, deadline - time.monotonic()),
                )
                return
            # While unsure, only 404 settles it: the earlier request may have had rights that this one lacks,
            # as when an API server has just started and has not loaded the roles yet.
            if error.status < 500 and error.status != 429 and (not unsure or error.status == 404):
                raise BindRefused(str(error)) from error
            problem = str(error)
            # With 429 the server did nothing; after any other error the bind may have happened.
            unsure = unsure or error.status != 429
        except Unsent as error:
            problem = str(error)
        except ConnectError as error:
            problem = str(error)
            unsure = True
        if pause is None or time.monotonic() + pause >= deadline:
            break
        await asyncio.sleep(pause)
    if unsure:
        raise BindUnknown(f"{problem}; the outcome is unknown, kube-scheduler may try again")
    raise BindRefused(problem)


def _binding(
    namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str] | None
) -> dict[str, Any]:
    """The Binding object; its UID is a precondition, so that another pod of the same name is not bound."""
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "uid": uid}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


async def _settle_conflict(
    client: ApiClient,
    *,
    namespace: str,
    name: str,
    uid: str,
    node: str,
    error: ApiError,
    unsure: bool,
    timeout_seconds: float,
) -> None:
    """Read the pod after a 409, which also follows an earlier request that had worked.

    A pod that reads as unbound proves nothing while an earlier request may still take effect: a frozen API
    server was seen to bind a pod after another API server had reported it as unbound.
    """
    try:
        pod = await client.pod(namespace, name, timeout_seconds=timeout_seconds)
    except (ApiError, ConnectError) as unreadable:
        raise BindUnknown(f"{error}; reading it back failed: {unreadable}") from error
    if pod.uid != uid:
        raise BindRefused(f"pod {namespace}/{name} is another one now: UID {pod.uid}, asked for {uid}")
    if pod.node_name == node:
        return
    if pod.node_name:
        raise BindRefused(f"pod {namespace}/{name} is already bound to {pod.node_name}")
    raise BindUnknown(str(error)) if unsure else BindRefused(str(error))
