"""The volumes of a generated pod: claims, disks by name, a driver's own, one that is made for it."""

from __future__ import annotations

from tests.parity.draw import Draw, Json
from tests.parity.storage import DRIVER
from tests.parity.world import World


def add_volumes(draw: Draw, pod: Json, world: World) -> None:
    """Claims of the pod's namespace, one that is not there, disks by name, or a driver of its own."""
    namespace = pod["metadata"]["namespace"]
    claims = [
        one["metadata"]["name"]
        for one in world.of_kind("PersistentVolumeClaim")
        if one["metadata"]["namespace"] == namespace
    ]
    volumes: list[Json] = []
    for number in range(draw.choice((1, 1, 2))):
        kind = draw.random()
        name = f"volume-{number}"
        if kind < 0.65 and claims:
            source = {"claimName": draw.choice(claims), "readOnly": draw.chance(20)}
            volumes.append({"name": name, "persistentVolumeClaim": source})
        elif kind < 0.70:
            volumes.append({"name": name, "persistentVolumeClaim": {"claimName": "nowhere"}})
        elif kind < 0.74:
            volumes.append({"name": name, "csi": {"driver": DRIVER}})
        elif kind < 0.78:
            template = {
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
            }
            volumes.append({"name": name, "ephemeral": {"volumeClaimTemplate": template}})
        else:
            volumes.append({"name": name, **_disk(draw)})
    pod["spec"]["volumes"] = volumes


def _disk(draw: Draw) -> Json:
    read_only = draw.chance(50)
    return draw.choice(
        (
            {"gcePersistentDisk": {"pdName": draw.choice(("a", "b")), "readOnly": read_only}},
            {"awsElasticBlockStore": {"volumeID": draw.choice(("a", "b")), "readOnly": read_only}},
            {
                "iscsi": {
                    "targetPortal": "192.0.2.1:3260",
                    "iqn": draw.choice(("iqn.2001-04.com.example:a", "iqn.2001-04.com.example:b")),
                    "lun": 0,
                    "readOnly": read_only,
                }
            },
            {
                "rbd": {
                    "monitors": draw.some(("m1", "m2", "m3"), 2),
                    "image": "image",
                    "pool": draw.choice(("p1", "p2")),
                    "readOnly": read_only,
                }
            },
        )
    )
