"""Reads and writes a Lease.

Updates have the resourceVersion that was read as a precondition, so that of two writers one gets a conflict.
"""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from bayplan.client.errors import ConnectError
from bayplan.client.rest import ApiClient

_API = "/apis/coordination.k8s.io/v1"


class LeaseSpec(Struct, frozen=True, rename="camel", omit_defaults=True):
    """``spec`` of a Lease."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Struct, frozen=True, rename="camel"):
    """A Lease; its metadata is written back as it was read, with annotations of other software."""

    metadata: dict[str, Any]
    spec: LeaseSpec = LeaseSpec()
    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"

    @property
    def holder(self) -> str:
        """The holder's identity; ``""`` for nobody."""
        return self.spec.holder_identity or ""


_LEASE = msgspec.json.Decoder(Lease)


class LeaseApi:
    """Reads and writes one Lease; every request has a timeout, since a late answer is useless."""

    def __init__(self, client: ApiClient, *, namespace: str, name: str, timeout_seconds: float) -> None:
        self.namespace = namespace
        self.name = name
        self._client = client
        self._timeout_seconds = timeout_seconds
        self._all = f"{_API}/namespaces/{quote(namespace, safe='')}/leases"
        self._one = f"{self._all}/{quote(name, safe='')}"

    async def read(self) -> Lease:
        """Read the Lease."""
        return await self._send("GET", self._one, "reading")

    async def create(self, spec: LeaseSpec) -> Lease:
        """Create the Lease; a conflict (409) if another server has just created it."""
        metadata = {"name": self.name, "namespace": self.namespace}
        return await self._send("POST", self._all, "creating", Lease(metadata, spec))

    async def update(self, lease: Lease, spec: LeaseSpec) -> Lease:
        """Write another spec; a conflict (409) if the Lease has changed since it was read."""
        return await self._send("PUT", self._one, "writing", msgspec.structs.replace(lease, spec=spec))

    async def _send(self, method: str, path: str, verb: str, body: Lease | None = None) -> Lease:
        content = await self._client.request(
            method,
            path,
            doing=f"{verb} lease {self.namespace}/{self.name}",
            body=body,
            timeout_seconds=self._timeout_seconds,
            # Not limited and urgent: behind a queue of reads or slow binds, the Lease would run out.
            limited=False,
            urgent=True,
        )
        try:
            return _LEASE.decode(content)
        except msgspec.MsgspecError as error:
            raise ConnectError(f"lease {self.namespace}/{self.name} cannot be read: {error}") from error


def micro_time(at: datetime | None = None) -> str:
    """A time in the format of a Kubernetes MicroTime."""
    return (at or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
