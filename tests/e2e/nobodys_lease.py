"""A Lease that nobody holds, as a server that has ended leaves it: without one, the first of all waits."""

from __future__ import annotations

from tests.controlplane.api import Api


def leave_lease(api: Api, name: str, *, namespace: str = "default") -> None:
    """See to it that there is a Lease of that name, whoever holds it."""
    if api.find("leases", name, namespace=namespace) is None:
        metadata = {"name": name, "namespace": namespace}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": {}}
        api.create("leases", lease, namespace=namespace)
