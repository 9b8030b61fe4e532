"""Nodes of a generated cluster: labels, taints, images, and amounts as people write them."""

from __future__ import annotations

from tests.parity.draw import GPU, HOST, HUGE, REGION, ZONE, ZONES, Draw, Json

MEBI = 1 << 20
RESTART_ALL = "RestartAllContainersOnContainerExits"
IMAGES = (
    "registry.example/small",
    "registry.example/app:v1",
    "registry.example/app:v2",
    "registry.example/huge",
)
_SIZES = {
    "registry.example/small": 5 * MEBI,
    "registry.example/app:v1": 140 * MEBI,
    "registry.example/app:v2": 400_000_001,
    "registry.example/huge": 4_000 * MEBI,
}
TAINTS: tuple[Json, ...] = (
    {"key": "dedicated", "value": "web", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "db", "effect": "NoSchedule"},
    {"key": "slow", "effect": "PreferNoSchedule"},
    {"key": "slow", "value": "very", "effect": "PreferNoSchedule"},
    {"key": "old", "value": "yes", "effect": "PreferNoSchedule"},
    {"key": "leaving", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
    {"key": "level", "value": "5", "effect": "NoSchedule"},
)


def node(draw: Draw, number: int, *, roomy: bool) -> Json:
    """One node; a roomy one has space for most pods, so that there is something to score."""
    name = f"node-{number}"
    spec: Json = {}
    if draw.chance(4 if roomy else 8):
        spec["unschedulable"] = True
    if draw.chance(25 if roomy else 40):
        spec["taints"] = _taints(draw)
    amounts = _amounts(draw, roomy=roomy)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": _labels(draw, name)},
        "spec": spec,
        "status": {
            "capacity": amounts,
            "allocatable": dict(amounts),
            "conditions": [{"type": "Ready", "status": "True"}],
            "images": _images(draw),
            **({"declaredFeatures": [RESTART_ALL]} if draw.chance(60) else {}),
        },
    }


def _labels(draw: Draw, name: str) -> dict[str, str]:
    labels = {"disk": draw.choice(("ssd", "hdd")), "gen": draw.choice(("1", "2", "3", "10", "0", "new"))}
    if not draw.chance(8):
        labels[HOST] = name
    if not draw.chance(10):
        labels[ZONE] = draw.choice(ZONES)
        labels[REGION] = draw.choice(("r1", "r1", "r2"))
    if draw.chance(60):
        labels["rack"] = draw.choice(("a", "b", ""))
    for key in ("disk", "gen"):
        if draw.chance(20):
            del labels[key]
    return labels


def _taints(draw: Draw) -> list[Json]:
    # The same key and effect twice is not allowed.
    found = {(taint["key"], taint["effect"]): taint for taint in draw.some(TAINTS, 3)}
    return list(found.values())


def _amounts(draw: Draw, *, roomy: bool) -> dict[str, str]:
    if roomy and draw.chance(90):
        return {
            "cpu": draw.choice(("16", "31.5", "64", "64000m", "1e2")),
            "memory": draw.choice(("32Gi", "64G", "128Gi", "1e11")),
            "pods": "110",
            "ephemeral-storage": "1Ti",
            GPU: draw.choice(("4", "8", "16")),
        }
    amounts = {
        "cpu": draw.choice(("0.1", "500m", "1", "2", "2", "4", "4", "4", "8", "8", "1e3")),
        "memory": draw.choice(("129M", "1Gi", "2Gi", "2Gi", "4Gi", "4Gi", "4Gi", "8Gi", "8e9", "1e12")),
        "pods": draw.choice(("110", "110", "110", "110", "110", "3", "1")),
        "ephemeral-storage": draw.choice(("10Gi", "100G", "1Ti")),
    }
    if draw.chance(40):
        amounts[GPU] = draw.choice(("0", "1", "4", "8"))
    if draw.chance(25):
        amounts[HUGE] = draw.choice(("0", "64Mi", "1Gi"))
    if draw.chance(6):
        amounts[draw.choice(("cpu", "memory", "pods"))] = "0"
    if draw.chance(6):
        del amounts[draw.choice(("cpu", "memory", "ephemeral-storage"))]
    return amounts


def _images(draw: Draw) -> list[Json]:
    if draw.chance(40):
        return []
    found = []
    for name in draw.some(IMAGES):
        tagged = name if ":" in name else f"{name}:latest"
        found.append({"names": [tagged, f"{name.partition(':')[0]}@sha256:00"], "sizeBytes": _SIZES[name]})
    return found
