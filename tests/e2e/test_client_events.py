"""Events that we write are accepted by a real API server, and shown as those of the pod."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bayplan.client.connect import from_kubeconfig
from bayplan.client.events import make_event, record_event, record_series
from bayplan.client.rest import ApiClient
from tests.controlplane.plane import ControlPlane

pytestmark = pytest.mark.e2e


async def test_an_event_is_kept_with_its_pod(cluster: ControlPlane) -> None:
    name = "web." + "x" * 60
    pod = cluster.api.create_pod(name, cpu="100m")
    async with ApiClient(from_kubeconfig(cluster.kubeconfig)) as client:
        for message in ("too little CPU on 3 nodes", "é" * 2000):
            event = make_event(
                namespace="default",
                regarding=(name, pod["metadata"]["uid"]),
                reason="FailedScheduling",
                message=message,
                kind="Warning",
                action="Scheduling",
                component="bayplan.dev/scheduler",
                instance="bayplan-0",
            )
            await record_event(client, event)
            for count, known in ((2, True), (3, False)):
                await record_series(client, event, count=count, observed=datetime.now(UTC), known=known)

    events = [e for e in cluster.api.items("events") if e["involvedObject"]["name"] == name]
    first, second = sorted(events, key=lambda e: len(e["message"]))
    assert first["message"] == "too little CPU on 3 nodes"
    assert len(second["message"].encode()) == 1024
    for event in events:
        assert event["involvedObject"]["uid"] == pod["metadata"]["uid"]
        assert (event["type"], event["reason"]) == ("Warning", "FailedScheduling")
        assert event["reportingComponent"] == "bayplan.dev/scheduler"
        assert event["series"]["count"] == 3
    assert first["metadata"]["name"] != second["metadata"]["name"]


@pytest.mark.parametrize("kind", ["merge", "strategic", "json"])
async def test_patches_of_every_kind_are_understood(cluster: ControlPlane, kind: str) -> None:
    cluster.api.create_node("n1")
    body = {
        "merge": {"metadata": {"labels": {"patched": "merge"}}},
        "strategic": {"metadata": {"labels": {"patched": "strategic"}}},
        "json": [{"op": "add", "path": "/metadata/labels/patched", "value": "json"}],
    }[kind]
    async with ApiClient(from_kubeconfig(cluster.kubeconfig)) as client:
        await client.patch("/api/v1/nodes/n1", body, kind=kind)  # type: ignore[arg-type]
        node = await client.node("n1")

    assert node.labels["patched"] == kind
