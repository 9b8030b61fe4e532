"""What a watch says, decoded as what is watched: bookmarks are objects with nothing in them but a version."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from bayplan.client.connect import from_kubeconfig
from bayplan.client.rest import NODES, NODES_WITH_IMAGES, PODS, ApiClient, Resource, object_resource
from bayplan.client.watch import bookmark, watch
from bayplan.kube.kinds import OBJECT_KINDS
from tests.controlplane.plane import ControlPlane

EVERY: dict[str, Resource[Any]] = {"Node": NODES, "Node with images": NODES_WITH_IMAGES, "Pod": PODS}
EVERY |= {kind: object_resource(kind) for kind in OBJECT_KINDS}
INITIAL = {"resourceVersion": "", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}


@pytest.mark.e2e
async def test_the_end_of_the_initial_events_can_be_read_whatever_is_watched(cluster: ControlPlane) -> None:
    async with ApiClient(from_kubeconfig(cluster.kubeconfig)) as client, asyncio.timeout(60):
        ends = {kind: await _end(client, resource) for kind, resource in EVERY.items()}

    assert all(version.isdecimal() for version in ends.values()), ends


async def _end(client: ApiClient, resource: Resource[Any]) -> str:
    """The version that a list in one stream ends with."""
    events = watch(client, resource, params=INITIAL, lasting_seconds=60, silence_seconds=60)
    async with aclosing(events):  # type: ignore[type-var]
        async for event in events:
            if event.type == "BOOKMARK":
                version, ended = bookmark(event.object)
                assert ended
                return version
    raise AssertionError(f"{resource.path}: the stream has no end")
