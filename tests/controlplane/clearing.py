"""Emptying a cluster, so that one control plane serves many tests."""

from __future__ import annotations

from tests.controlplane.client import ApiError, Client, Json
from tests.controlplane.waiting import wait_until

NAMESPACED = ("pods", "poddisruptionbudgets", "leases", "configmaps", "events")
OURS_TO_KEEP = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})


def clear(client: Client, timeout_seconds: float = 90.0) -> None:
    """Delete what tests create, and return when it is gone.

    Left alone are the API server's own namespaces except ``default``, the ``system-*`` priority
    classes, and what `ControlPlane.kubeconfig_for` makes, which it overwrites by itself.
    """
    wait_until(
        lambda: _sweep(client),
        timeout_seconds,
        what="the cluster is empty",
        explain=lambda: "left over: " + ", ".join(_left_over(client)),
    )


def _sweep(client: Client) -> bool:
    """Delete everything once; true when there was nothing left to delete."""
    found = False
    for resource in NAMESPACED:
        for namespace, items in _by_namespace(client, resource).items():
            found = True
            _release(client, resource, items)
            client.delete_all(resource, namespace)
    if nodes := client.items("nodes"):
        found = True
        _release(client, "nodes", nodes)
        client.delete_all("nodes")
    for resource in ("priorityclasses", "namespaces"):
        for item in _custom(client, resource):
            found = True
            client.delete(resource, item["metadata"]["name"])
            if resource == "namespaces":
                _finalize(client, item)
    return not found


def _by_namespace(client: Client, resource: str) -> dict[str, list[Json]]:
    found: dict[str, list[Json]] = {}
    for item in client.items(resource, None):
        namespace = item["metadata"]["namespace"]
        if namespace == "default" or namespace not in OURS_TO_KEEP:
            found.setdefault(namespace, []).append(item)
    return found


def _custom(client: Client, resource: str) -> list[Json]:
    return [
        item
        for item in client.items(resource)
        if not item["metadata"]["name"].startswith("system-") and item["metadata"]["name"] not in OURS_TO_KEEP
    ]


def _release(client: Client, resource: str, items: list[Json]) -> None:
    """Take the finalizers off: whoever was to honour them does not run here any more."""
    for item in items:
        metadata = item["metadata"]
        if not metadata.get("finalizers"):
            continue
        nothing = {"metadata": {"finalizers": None}}
        try:
            client.patch(resource, metadata["name"], nothing, namespace=metadata.get("namespace", "default"))
        except ApiError as error:
            if error.status != 404:
                raise


def _finalize(client: Client, namespace: Json) -> None:
    """Do what the namespace controller would do after the last object is gone."""
    name = namespace["metadata"]["name"]
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "spec": {}}
    try:
        client.request("PUT", f"/api/v1/namespaces/{name}/finalize", body=body)
    except ApiError as error:
        if error.status not in (404, 409):
            raise


def _left_over(client: Client) -> list[str]:
    namespaced = [
        f"{resource} {item['metadata']['namespace']}/{item['metadata']['name']}"
        for resource in NAMESPACED
        for items in _by_namespace(client, resource).values()
        for item in items
    ]
    nodes = [f"node {item['metadata']['name']}" for item in client.items("nodes")]
    custom = [
        f"{resource} {item['metadata']['name']}"
        for resource in ("priorityclasses", "namespaces")
        for item in _custom(client, resource)
    ]
    return namespaced + nodes + custom
