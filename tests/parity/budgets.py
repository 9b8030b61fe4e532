"""What else a full cluster has: budgets that protect pods, and a claim that one pod alone may use."""

from __future__ import annotations

from collections.abc import Iterable

from tests.parity.draw import APPS, Draw, Json

EVERY_TIER: Json = {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["front", "back"]}]}
_SIZE = {"storage": "1Gi"}


def budget(draw: Draw, number: int, namespace: str, pods: list[Json]) -> Json:
    """A PodDisruptionBudget as a controller leaves it: some cover nobody, some count pods as gone already."""
    selector = draw.choice(
        (
            {"matchLabels": {"app": draw.choice(APPS)}},
            {"matchLabels": {"app": draw.choice(APPS)}},
            EVERY_TIER,
            {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
            {},
            None,
        )
    )
    spec: Json = {"minAvailable": 1}
    if selector is not None:
        spec["selector"] = selector
    status: Json = {
        "disruptionsAllowed": draw.choice((0, 0, 1, 2)),
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "expectedPods": 0,
    }
    mine = [pod["metadata"]["name"] for pod in pods if pod["metadata"]["namespace"] == namespace]
    if mine and draw.chance(40):
        status["disruptedPods"] = dict.fromkeys(draw.some(mine, 3), "2026-11-10T08:00:00Z")
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"budget-{number}", "namespace": namespace},
        "spec": spec,
        "status": status,
    }


def lonely_claims(namespaces: Iterable[str]) -> list[Json]:
    """In each namespace a claim that one pod at a time may use, with its volume."""
    found: list[Json] = []
    for namespace in namespaces:
        spec = {"accessModes": ["ReadWriteOncePod"], "storageClassName": ""}
        found.append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": namespace},
                "spec": {
                    **spec,
                    "capacity": _SIZE,
                    "nfs": {"server": "files.example", "path": "/"},
                    "claimRef": {
                        "kind": "PersistentVolumeClaim",
                        "namespace": namespace,
                        "name": f"of-{namespace}",
                    },
                },
                "status": {"phase": "Bound"},
            }
        )
        found.append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {
                    "name": f"of-{namespace}",
                    "namespace": namespace,
                    "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
                },
                "spec": {**spec, "volumeName": namespace, "resources": {"requests": _SIZE}},
                "status": {"phase": "Bound"},
            }
        )
    return found


def use_claim(pod: Json) -> None:
    """Mount that claim. Its name is of its namespace: kube-scheduler mixes up claims of one name."""
    source = {"claimName": f"of-{pod['metadata']['namespace']}"}
    pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": source}]
