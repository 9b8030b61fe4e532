"""Stands in for the API server where it has claims and volumes: versions, preconditions, scripted faults."""

import asyncio
import copy
import json
from collections.abc import Callable
from typing import Any

from bayplan.client.errors import ApiError
from tests.parity.volumes import Json


class StorageApi:
    """Keeps objects by path, and answers PATCH, GET and the bind of a pod."""

    def __init__(self, *manifests: Json) -> None:
        self.objects: dict[str, Json] = {}
        self.version = 100
        self.faults: list[tuple[str, Exception | None]] = []
        """What happens to the next writes: ``before`` nothing was done, or ``after`` all was."""
        self.asked: list[tuple[str, str]] = []
        self.bound: dict[str, str] = {}
        self.hold = asyncio.Event()
        self.hold.set()
        self.on_write: Callable[[Json], None] = lambda _: None
        for manifest in manifests:
            self.create(manifest)

    def create(self, manifest: Json) -> Json:
        made = copy.deepcopy(manifest)
        made["metadata"].setdefault("uid", f"uid-of-{made['metadata']['name']}")
        return self._put(path_of(made), made)

    def change(self, path: str, change: Callable[[Json], object]) -> Json:
        """Somebody else writes."""
        made = copy.deepcopy(self.objects[path])
        change(made)
        return self._put(path, made)

    async def request(self, method: str, path: str, *, body: Any = None, **_: Any) -> bytes:
        await self.hold.wait()
        self.asked.append((method, path))
        if method == "POST":
            self.bound[body["metadata"]["name"]] = body["target"]["name"]
            return b"{}"
        if path not in self.objects:
            raise ApiError(404, "not found", doing="asking")
        if method == "GET":
            return json.dumps(self.objects[path]).encode()
        when, fault = self.faults.pop(0) if self.faults else ("", None)
        if when == "before" and fault is not None:
            raise fault
        now = self.objects[path]
        if body["metadata"]["resourceVersion"] != now["metadata"]["resourceVersion"]:
            raise ApiError(409, "the object has been modified", doing="writing")
        self._put(path, merged(now, {**body, "metadata": {**body["metadata"], "resourceVersion": None}}))
        if fault is not None:
            raise fault
        return json.dumps(self.objects[path]).encode()

    def _put(self, path: str, made: Json) -> Json:
        self.version += 1
        made["metadata"]["resourceVersion"] = str(self.version)
        self.objects[path] = made
        self.on_write(made)
        return made


def merged(before: Json, patch: Json) -> Json:
    """A merge patch."""
    result = copy.deepcopy(before)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = merged(result.get(key, {}), value)
        else:
            result[key] = value
    return result


def path_of(manifest: Json) -> str:
    """Where the API server has it."""
    name = manifest["metadata"]["name"]
    if manifest["kind"] == "PersistentVolume":
        return f"/api/v1/persistentvolumes/{name}"
    return f"/api/v1/namespaces/default/persistentvolumeclaims/{name}"
