"""Services and controllers of a generated cluster: pods that they select are spread without asking for it."""

from __future__ import annotations

from tests.parity.draw import APPS, NAMESPACES, TIERS, Draw, Json
from tests.parity.world import World

CONTROLLERS = ("ReplicaSet", "StatefulSet", "ReplicationController")


def workloads(draw: Draw) -> list[Json]:
    """A few Services, ReplicaSets and the like, in all namespaces."""
    found: list[Json] = []
    for namespace in NAMESPACES:
        services = range(draw.choice((0, 1, 1, 2)))
        found += [_service(draw, namespace, f"service-{number}") for number in services]
        found += [_controller(draw, namespace, kind) for kind in CONTROLLERS if draw.chance(30)]
    return found


def owner(draw: Draw, world: World, metadata: Json) -> Json | None:
    """A controller of the namespace as the owner of a pod, if there is one that selects it."""
    fitting = [
        one
        for one in world.of_kind(*CONTROLLERS)
        if one["metadata"]["namespace"] == metadata["namespace"]
        and _selected(one).items() <= metadata["labels"].items()
    ]
    if not fitting:
        return None
    chosen = draw.choice(fitting)
    return {
        "apiVersion": chosen["apiVersion"],
        "kind": chosen["kind"],
        "name": chosen["metadata"]["name"],
        "uid": "00000000-0000-0000-0000-000000000001",
        "controller": True,
    }


def _selected(controller: Json) -> dict[str, str]:
    selector = controller["spec"]["selector"]
    found: dict[str, str] = selector.get("matchLabels", selector)
    return found


def _labels(draw: Draw) -> dict[str, str]:
    labels = {"app": draw.choice(APPS)}
    if draw.chance(25):
        labels["tier"] = draw.choice(TIERS)
    return labels


def _service(draw: Draw, namespace: str, name: str) -> Json:
    spec: Json = {"ports": [{"port": 80}], "clusterIP": "None"}
    if not draw.chance(10):
        spec["selector"] = _labels(draw)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def _controller(draw: Draw, namespace: str, kind: str) -> Json:
    labels = _labels(draw)
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "registry.example/none"}]},
    }
    plain = kind == "ReplicationController"
    spec: Json = {"selector": labels if plain else {"matchLabels": labels}, "template": template}
    if kind == "StatefulSet":
        spec["serviceName"] = "service-0"
    return {
        "apiVersion": "v1" if plain else "apps/v1",
        "kind": kind,
        "metadata": {"name": kind.lower(), "namespace": namespace},
        "spec": spec,
    }
