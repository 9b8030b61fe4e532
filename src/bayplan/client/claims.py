"""Binds volumes to claims, or selects the node to provision one on, as kube-scheduler does.

Both requests have the object's resourceVersion as a precondition, so that no volume is ever given to two
claims. A request without an answer may have worked, so the same request is sent again, and after a conflict
(409) the object is read.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from bayplan.client.errors import ApiError, ConnectError
from bayplan.client.rest import ApiClient, object_resource
from bayplan.kube.meta import NO_META, NamedObject
from bayplan.kube.volumes import PersistentVolume, PersistentVolumeClaim

T = TypeVar("T", bound=NamedObject)

BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
"""Annotation of a volume: a controller chose its claim, not a person, so a controller may unbind it."""
SELECTED_NODE = "volume.kubernetes.io/selected-node"

_RETRY_SECONDS = (0.05, 0.2, 0.5, 1.0)
# The least time to read the object after a conflict, even at the deadline.
_READ_SECONDS = 0.5


class WriteRefused(Exception):
    """The write failed, or its outcome is unknown; the text says why."""


def is_kept(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume is bound to this claim (by UID)."""
    keeper = volume.spec.claim_ref
    return keeper is not None and (keeper.namespace, keeper.name, keeper.uid) == (
        claim.namespace,
        claim.name,
        claim.uid,
    )


async def keep_volume(
    client: ApiClient, volume: PersistentVolume, claim: PersistentVolumeClaim, *, timeout_seconds: float
) -> PersistentVolume:
    """Write a claim's reference into a volume; returns the volume as the API server has it then.

    Needs the right to get and patch ``persistentvolumes``.
    """
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.namespace,
        "name": claim.name,
        "uid": claim.uid,
        "resourceVersion": (claim.metadata or NO_META).resource_version,
    }
    metadata = _precondition(volume)
    if volume.spec.claim_ref is None:
        # A volume that a person had reserved for the claim does not get the annotation.
        metadata["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
    return await _write(
        client,
        volume,
        {"metadata": metadata, "spec": {"claimRef": reference}},
        path=f"{object_resource('PersistentVolume').path}/{quote(volume.name, safe='')}",
        doing=f"keeping volume {volume.name} for claim {claim.key}",
        done=lambda now: is_kept(now, claim),
        timeout_seconds=timeout_seconds,
    )


async def select_node(
    client: ApiClient, claim: PersistentVolumeClaim, node: str, *, timeout_seconds: float
) -> PersistentVolumeClaim:
    """Write the node for provisioning on a claim; returns the claim as the API server has it then.

    Needs the right to get and patch ``persistentvolumeclaims``.
    """
    metadata = {**_precondition(claim), "annotations": {SELECTED_NODE: node}}
    names = quote(claim.namespace, safe=""), quote(claim.name, safe="")
    return await _write(
        client,
        claim,
        {"metadata": metadata},
        path=f"/api/v1/namespaces/{names[0]}/persistentvolumeclaims/{names[1]}",
        doing=f"selecting node {node} for claim {claim.key}",
        done=lambda now: now.uid == claim.uid and now.annotations.get(SELECTED_NODE) == node,
        timeout_seconds=timeout_seconds,
    )


def _precondition(one: NamedObject) -> dict[str, Any]:
    return {"uid": one.uid, "resourceVersion": (one.metadata or NO_META).resource_version}


async def _write(
    client: ApiClient,
    one: T,
    patch: dict[str, Any],
    *,
    path: str,
    doing: str,
    done: Callable[[T], bool],
    timeout_seconds: float,
) -> T:
    deadline = time.monotonic() + timeout_seconds
    for pause in (*_RETRY_SECONDS, None):
        try:
            answer = await client.request(
                "PATCH",
                path,
                doing=doing,
                body=patch,
                content_type="application/merge-patch+json",
                timeout_seconds=deadline - time.monotonic(),
                limited=False,
            )
            return _decode(answer, one, doing)
        except ApiError as error:
            if error.status == 409:
                left_seconds = max(_READ_SECONDS, deadline - time.monotonic())
                return await _settle_conflict(
                    client, one, path=path, doing=doing, done=done, timeout_seconds=left_seconds
                )
            if error.status < 500 and error.status != 429:
                raise WriteRefused(_explained(error, doing)) from error
            problem: Exception = error
        except ConnectError as error:
            problem = error
        if pause is None or time.monotonic() + pause >= deadline:
            raise WriteRefused(str(problem))
        await asyncio.sleep(pause)
    raise AssertionError("the last try returns or raises")


async def _settle_conflict(
    client: ApiClient, one: T, *, path: str, doing: str, done: Callable[[T], bool], timeout_seconds: float
) -> T:
    """Read the object after a 409, which also follows an earlier, equal write that had worked."""
    try:
        now = _decode(
            await client.request("GET", path, doing=doing, timeout_seconds=timeout_seconds, limited=False),
            one,
            doing,
        )
    except (ApiError, ConnectError) as error:
        raise WriteRefused(f"{doing}: it was changed meanwhile, and cannot be read: {error}") from error
    if not done(now):
        raise WriteRefused(f"{doing}: it was changed meanwhile")
    return now


def _decode(answer: bytes, one: T, doing: str) -> T:
    try:
        return msgspec.json.decode(answer, type=type(one))
    except msgspec.MsgspecError as error:
        raise WriteRefused(f"{doing}: the answer is not what an API server sends: {error}") from error


def _explained(error: ApiError, doing: str) -> str:
    if error.status != 403:
        return str(error)
    return f"{doing}: the API server said 403: {error.message}; see the rights in docs/how-to/schedule.md"
