"""Puts a cluster of manifests into the API server, reads it back as Bayplan sees it, and clears it away."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import msgspec

from bayplan.kube.kinds import OBJECT_KINDS
from bayplan.kube.node import NodeWithImages
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.objects import Objects
from tests.controlplane.client import ApiError, Client
from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.parity.world import HOLD, NEVER, RUNTIME, Json, World, meta

_CORE, _APPS, _STORAGE = "/api/v1", "/apis/apps/v1", "/apis/storage.k8s.io/v1"
_DEVICES = "/apis/resource.k8s.io/v1"
PATHS = {
    "Namespace": f"{_CORE}/namespaces",
    "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "StorageClass": f"{_STORAGE}/storageclasses",
    "CSIDriver": f"{_STORAGE}/csidrivers",
    "CSINode": f"{_STORAGE}/csinodes",
    "VolumeAttachment": f"{_STORAGE}/volumeattachments",
    "CSIStorageCapacity": f"{_STORAGE}/namespaces/{{}}/csistoragecapacities",
    "PersistentVolume": f"{_CORE}/persistentvolumes",
    "PersistentVolumeClaim": f"{_CORE}/namespaces/{{}}/persistentvolumeclaims",
    "Service": f"{_CORE}/namespaces/{{}}/services",
    "ReplicationController": f"{_CORE}/namespaces/{{}}/replicationcontrollers",
    "ReplicaSet": f"{_APPS}/namespaces/{{}}/replicasets",
    "StatefulSet": f"{_APPS}/namespaces/{{}}/statefulsets",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "DeviceClass": f"{_DEVICES}/deviceclasses",
    "ResourceSlice": f"{_DEVICES}/resourceslices",
    "ResourceClaim": f"{_DEVICES}/namespaces/{{}}/resourceclaims",
    "Node": f"{_CORE}/nodes",
    "Pod": f"{_CORE}/namespaces/{{}}/pods",
}
"""Where each kind is, in the order in which they can be made."""
_LASTING = ("Namespace", "RuntimeClass", "PriorityClass")
_WITH_STATUS = ("PersistentVolume", "PersistentVolumeClaim", "PodDisruptionBudget", "ResourceClaim", "Pod")
_PROTECTED = ("PersistentVolume", "PersistentVolumeClaim", "ResourceClaim")
_WORKERS = 6

_Decoder = msgspec.json.Decoder[Any]


def _lists(item: type) -> _Decoder:
    return msgspec.json.Decoder(msgspec.defstruct("_List", [("items", list[item])]))  # type: ignore[valid-type]


_DECODERS: dict[str, _Decoder] = {
    "Node": _lists(NodeWithImages),
    "Pod": _lists(Pod),
    **{name: _lists(kind.part) for name, kind in OBJECT_KINDS.items()},
}


class Stage:
    """One API server whose objects are those of one `World` at a time, inside its ``with`` block."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._mine = threading.local()
        self._clients: list[Client] = []
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="stage")
        self._staged = World()
        self._objects = Objects()
        self._nodes: list[NodeWithImages] = []

    def __enter__(self) -> Self:
        self._each(self._make, LASTING_OBJECTS)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with suppress(ApiError, OSError):
            self.clear()
            self._each(self.delete, LASTING_OBJECTS)
            self._patch(_DEFAULT, {"metadata": {"labels": {"env": None}}})
        self._pool.shutdown()
        for client in self._clients:
            client.close()

    def put(self, world: World) -> None:
        """Make this the cluster; what was there before is gone."""
        self.clear()
        self._staged = world
        for lasting in (True, False):
            self._each(self._make, (one for one in world.objects if (one["kind"] in _LASTING) == lasting))
        self._read()

    def add(self, pod: Json) -> None:
        """Place one more pod."""
        self._staged = self._staged.plus(pod)
        self._make(pod)

    def create(self, pod: Json) -> Pod:
        """Create the pod that is to be placed; the API server's version of it."""
        path = PATHS["Pod"].format(meta(pod)[0])
        return msgspec.json.decode(self._client.text("POST", path, body=pod), type=Pod)

    def delete(self, one: Json) -> None:
        """Delete an object, if it is there."""
        with suppress(ApiError):
            self._client.request("DELETE", _path(one), body={"gracePeriodSeconds": 0})

    def node_of(self, pod: Json) -> str:
        """The node that a pod is bound to, or ``""``."""
        found: str = self._client.request("GET", _path(pod))["spec"].get("nodeName", "")
        return found

    def snapshot(self) -> Snapshot:
        """The cluster as it is now, out of the API server."""
        pods = _DECODERS["Pod"].decode(self._client.text("GET", f"{_CORE}/pods")).items
        return Snapshot.build(self._nodes, pods, self._objects)

    def restore_volumes(self, pod: Json) -> None:
        """Take back what kube-scheduler wrote on claims and volumes for a pod that is deleted again."""
        sources = [one.get("persistentVolumeClaim") for one in pod["spec"].get("volumes", ())]
        used = {(meta(pod)[0], source["claimName"]) for source in sources if source}
        waiting = [
            one for one in self._staged.of_kind("PersistentVolumeClaim") if "volumeName" not in one["spec"]
        ]
        if not any(meta(one) in used for one in waiting):
            return
        free = (one for one in self._staged.of_kind("PersistentVolume") if one["status"]["phase"] != "Bound")
        self._each(self._as_before, (*free, *waiting))

    def clear(self) -> None:
        """Delete the cluster, and return when the API server has none of it."""
        self._each(self._remove, (one for one in self._staged.objects if one["kind"] not in _LASTING))
        self._staged = World()
        wait_until(lambda: not self._left(), 30.0, what="the cluster is cleared away")

    def _left(self) -> bool:
        """Whether something is left; pods that were tried and not deleted are deleted now."""
        pods = self._client.request("GET", f"{_CORE}/pods")["items"]
        self._each(self._remove, ({"kind": "Pod", **one} for one in pods))
        return bool(pods or self._client.request("GET", f"{PATHS['Node']}?limit=1")["items"])

    def _read(self) -> None:
        def listed(kind: str) -> list[Any]:
            path = PATHS[kind].replace("/namespaces/{}", "")
            items: list[Any] = _DECODERS[kind].decode(self._client.text("GET", path)).items
            return items

        kinds = [kind for kind in OBJECT_KINDS if kind in PATHS]
        found = dict(zip(kinds, self._pool.map(listed, kinds), strict=True))
        self._objects = Objects.of((kind, one) for kind in kinds for one in found[kind])
        self._nodes = listed("Node")

    def _make(self, one: Json) -> None:
        namespace, _ = meta(one)
        kind = one["kind"]
        try:
            self._client.request("POST", PATHS[kind].format(namespace), body=one)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            labels = {"metadata": {"labels": one["metadata"].get("labels")}}
            self._patch(one, labels)
        if kind in _WITH_STATUS and "status" in one:
            self._patch(one, {"status": one["status"]}, "status")
        if HOLD in one["metadata"].get("finalizers", ()):
            self.delete(one)

    def _remove(self, one: Json) -> None:
        # Volumes and claims carry finalizers that somebody else put there.
        if one["kind"] in _PROTECTED or one["metadata"].get("finalizers"):
            with suppress(ApiError):
                self._patch(one, {"metadata": {"finalizers": None}})
        self.delete(one)

    def _as_before(self, one: Json) -> None:
        if one["kind"] == "PersistentVolume":
            self._patch(one, {"spec": {"claimRef": one["spec"].get("claimRef")}})
            return
        selected = "volume.kubernetes.io/selected-node"
        before = one["metadata"].get("annotations", {}).get(selected)
        self._patch(one, {"metadata": {"annotations": {selected: before}}})

    def _patch(self, one: Json, patch: Json, subresource: str = "") -> None:
        path = "/".join(part for part in (_path(one), subresource) if part)
        self._client.request("PATCH", path, body=patch, content_type="application/merge-patch+json")

    def _each(self, do: Callable[[Json], None], objects: Iterable[Json]) -> None:
        for _ in self._pool.map(do, objects):
            pass

    @property
    def _client(self) -> Client:
        """A connection for each thread: they do not share."""
        found: Client | None = getattr(self._mine, "client", None)
        if found is None:
            found = Client(self._plane.server, self._plane.ca.cert, token=self._plane.admin_token)
            self._mine.client = found
            self._clients.append(found)
        return found


def _path(one: Json) -> str:
    namespace, name = meta(one)
    return f"{PATHS[one['kind']].format(namespace)}/{name}"


_DEFAULT: Json = {"kind": "Namespace", "metadata": {"name": "default"}}
LASTING_OBJECTS: tuple[Json, ...] = (
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": NEVER},
        "value": 0,
        "preemptionPolicy": "Never",
    },
    {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": RUNTIME},
        "handler": "any",
        "overhead": {"podFixed": {"cpu": "250m", "memory": "120Mi"}},
    },
)
