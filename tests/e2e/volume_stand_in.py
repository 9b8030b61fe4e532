"""A stand-in for the PersistentVolume controller and a provisioner, which the tests' control plane lacks.

It does what a scheduler waits for, and no more: it binds a claim to the volume that has the claim in its
``claimRef``, and makes a volume for a claim that has a node selected. It is not Kubernetes' own code.
"""

from __future__ import annotations

import contextlib
import threading
from types import TracebackType
from typing import Self

from tests.controlplane.client import ApiError, Client, Json
from tests.controlplane.plane import ControlPlane
from tests.parity.volumes import BOUND, HOSTNAME, SELECTED_NODE, volume

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
_POLL_SECONDS = 0.1


class VolumeStandIn:
    """Looks at claims and volumes again and again, inside its ``with`` block."""

    def __init__(self, cluster: ControlPlane, *, cannot: tuple[str, ...] = ()) -> None:
        """``cannot`` are nodes on which no volume can be made: they are taken off the claim again."""
        self._client = Client(cluster.server, cluster.ca.cert, token=cluster.admin_token)
        self._cannot = cannot
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        while not self._stop.wait(_POLL_SECONDS):
            # Somebody else wrote in the same moment, or the API server is away: another look will do.
            with contextlib.suppress(ApiError, OSError):
                self._look()

    def _look(self) -> None:
        claims = {one["metadata"]["uid"]: one for one in self._client.request("GET", CLAIMS)["items"]}
        for one in self._client.request("GET", VOLUMES)["items"]:
            claim = claims.get(one["spec"].get("claimRef", {}).get("uid", ""))
            if claim is not None and "volumeName" not in claim["spec"]:
                self._bind(claim, one)
        for claim in claims.values():
            node = claim["metadata"].get("annotations", {}).get(SELECTED_NODE)
            if node and "volumeName" not in claim["spec"]:
                self._make(claim, node)

    def _bind(self, claim: Json, volume: Json) -> None:
        name = volume["metadata"]["name"]
        self._patch(VOLUMES, name, {"status": {"phase": "Bound"}}, part="/status")
        annotations = {BOUND: "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
        body = {"metadata": {"annotations": annotations}, "spec": {"volumeName": name}}
        self._patch(CLAIMS, claim["metadata"]["name"], body)
        self._patch(CLAIMS, claim["metadata"]["name"], {"status": {"phase": "Bound"}}, part="/status")

    def _make(self, claim: Json, node: str) -> None:
        metadata = claim["metadata"]
        if node in self._cannot:
            self._patch(CLAIMS, metadata["name"], {"metadata": {"annotations": {SELECTED_NODE: None}}})
            return
        made = volume(
            f"pvc-{metadata['uid']}",
            storage_class=claim["spec"]["storageClassName"],
            size=claim["spec"]["resources"]["requests"]["storage"],
            claim=metadata["name"],
            within={HOSTNAME: [node]},
        )
        made["spec"]["claimRef"]["uid"] = metadata["uid"]
        self._client.request("POST", VOLUMES, body=made)

    def _patch(self, path: str, name: str, body: Json, *, part: str = "") -> None:
        self._client.request(
            "PATCH", f"{path}/{name}{part}", body=body, content_type="application/merge-patch+json"
        )
