"""What a generated pod asks of its node: amounts, containers of every kind, ports, images."""

from __future__ import annotations

import msgspec

from bayplan.kube.node import NodeObject
from bayplan.kube.pod import Pod
from tests.parity.draw import GPU, HUGE, Draw, Json
from tests.parity.nodes import IMAGES
from tests.parity.world import RUNTIME, World

_PORTS = (80, 443, 8080)
_ADDRESSES = ("", "", "127.0.0.1", "10.0.0.1", "0.0.0.0")


def add_containers(draw: Draw, spec: Json) -> None:
    """One or two containers, and now and then init containers, sidecars, overhead or pod-level requests."""
    spec["containers"] = [_container(draw, f"main-{number}") for number in range(draw.choice((1, 1, 1, 2)))]
    init = []
    if draw.chance(12):
        init.append(_container(draw, "first"))
    if draw.chance(10):
        init.append({**_container(draw, "sidecar"), "restartPolicy": "Always"})
    if init and draw.chance(30):
        init.append(_container(draw, "last"))
    if init:
        spec["initContainers"] = init
    if draw.chance(6):
        spec["runtimeClassName"] = RUNTIME
    if draw.chance(6) and not any(_special(one) for one in (*spec["containers"], *init)):
        spec["resources"] = _as_a_whole(draw.choice(("20", "20.5")), Draw(f"as a whole {spec}"))


def add_restart_rule(draw: Draw, spec: Json) -> None:
    """A rule that only newer kubelets keep."""
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
    plain = [one for one in spec.get("initContainers", ()) if "restartPolicy" not in one]
    container = draw.choice((spec["containers"][0], *plain))
    container |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}


def add_ports(draw: Draw, spec: Json) -> None:
    """Ports of the node, at some address or all."""
    wanted: dict[tuple[int, str, str], Json] = {}
    for _ in range(draw.randint(1, 2)):
        number, protocol = draw.choice(_PORTS), draw.choice(("TCP", "TCP", "UDP"))
        port: Json = {"containerPort": number, "hostPort": number, "protocol": protocol}
        if address := draw.choice(_ADDRESSES):
            port["hostIP"] = address
        wanted[number, protocol, address] = port
    sidecars = [one for one in spec.get("initContainers", ()) if one.get("restartPolicy")]
    draw.choice((spec["containers"][0], *sidecars))["ports"] = list(wanted.values())
    if draw.chance(20):
        spec["hostNetwork"] = True


def add_image_volume(draw: Draw, spec: Json) -> None:
    """The files of an image as a volume."""
    volumes = spec.setdefault("volumes", [])
    volumes.append(
        {"name": "files", "image": {"reference": draw.choice(IMAGES), "pullPolicy": "IfNotPresent"}}
    )


def fit_exactly(draw: Draw, spec: Json, world: World) -> None:
    """Ask for what is left on some node, or for one unit more than that."""
    name = draw.choice(world.nodes)["metadata"]["name"]
    left = _left(world, name)
    over = draw.choice((0, 0, 0, 1))
    resource = draw.choice(("cpu", "memory"))
    amounts = {key: str(max(left.get(key, 0), 0)) for key in ("cpu", "memory")}
    amounts[resource] = str(max(left.get(resource, 0) + over, 0))
    amounts["cpu"] += "m"
    wanted = {key: amounts[key] for key in draw.some(("cpu", "memory"))}
    if draw.chance(25) and left.get(GPU, 0) >= 0 and GPU in left:
        wanted[GPU] = str(left[GPU] + over)
    limits = {key: amount for key, amount in wanted.items() if key == GPU}
    image = spec["containers"][0]["image"]
    spec["containers"] = [
        {"name": "exact", "image": image, "resources": {"requests": wanted, "limits": limits}}
    ]
    for key in ("initContainers", "resources", "runtimeClassName"):
        spec.pop(key, None)


def _container(draw: Draw, name: str) -> Json:
    requests: dict[str, str] = {}
    if draw.chance(65):
        requests["cpu"] = draw.cpu()
    if draw.chance(65):
        requests["memory"] = draw.memory()
    if draw.chance(10):
        requests["ephemeral-storage"] = draw.choice(("1Gi", "50G", "500Gi", "0"))
    limits: dict[str, str] = {}
    if draw.chance(8):
        limits[GPU] = requests[GPU] = draw.choice(("0", "1", "2", "4"))
    if draw.chance(5):
        requests.setdefault("cpu", "100m")
        limits[HUGE] = requests[HUGE] = draw.choice(("32Mi", "64Mi", "128Mi"))
    if draw.chance(8) and not requests:
        limits = {"cpu": "300m", "memory": "100Mi"}
    image = draw.choice((*IMAGES, "registry.example/none"))
    return {"name": name, "image": image, "resources": {"requests": requests, "limits": limits}}


def _as_a_whole(cpu: str, draw: Draw) -> Json:
    """Requests of the pod: as much as all of its containers could ask for, or the API server refuses it."""
    both = {"cpu": cpu, "memory": "20Gi"}
    huge = {HUGE: draw.choice(("32Mi", "64Mi", "128Mi"))}
    return draw.choice(
        (
            {"requests": both},
            {"requests": both},
            {"requests": {key: both[key] for key in draw.some(("cpu", "memory"), 1)}},
            {"limits": both},
            {"requests": {"cpu": cpu}, "limits": both},
            {"requests": both | huge, "limits": huge},
        )
    )


def _special(container: Json) -> bool:
    requests = container["resources"]["requests"]
    return GPU in requests or HUGE in requests or bool(container["resources"]["limits"])


def _left(world: World, name: str) -> dict[str, int]:
    """What is left on a node, in the units of scheduling."""
    manifest = next(one for one in world.nodes if one["metadata"]["name"] == name)
    left = dict(msgspec.convert(manifest, NodeObject).allocatable)
    for one in world.pods:
        if one["spec"]["nodeName"] == name:
            for resource, amount in msgspec.convert(one, Pod).requests.items():
                left[resource] = left.get(resource, 0) - amount
    return left
