"""Placed pods that are being resized: what the kubelet says of their requests is not what they ask for."""

from __future__ import annotations

from tests.parity.draw import Draw, Json


def add_resize(draw: Draw, pod: Json) -> None:
    """What the kubelet gave to some containers, less or more than they ask for, and that it said no."""
    spec, status = pod["spec"], pod["status"]
    sidecars = [one for one in spec.get("initContainers", ()) if one.get("restartPolicy") == "Always"]
    for key, containers in (
        ("containerStatuses", spec["containers"]),
        ("initContainerStatuses", sidecars),
    ):
        told = [_status(draw, one["name"]) for one in containers if draw.chance(80)]
        if told:
            status[key] = told
    if "resources" in spec and draw.chance(70):
        status["resources"] = {"requests": {"cpu": draw.cpu(), "memory": draw.memory()}}
        status["allocatedResources"] = {"cpu": draw.choice(("20", "20.5", "21")), "memory": "20Gi"}
    if draw.chance(40):
        reason = draw.choice(("Infeasible", "Deferred"))
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]


def _status(draw: Draw, name: str) -> Json:
    told: Json = {"name": name, "image": "x", "imageID": "x", "ready": True, "restartCount": 0}
    if draw.chance(90):
        told["resources"] = {"requests": _amounts(draw)} if draw.chance(80) else {}
    if draw.chance(60):
        told["allocatedResources"] = _amounts(draw)
    return told


def _amounts(draw: Draw) -> Json:
    amounts = {"cpu": draw.cpu(), "memory": draw.memory()}
    return {key: amounts[key] for key in draw.some(("cpu", "memory"))}
