"""Disks from before CSI: the drivers that serve them today, and what their volumes are there.

kube-scheduler treats such a volume as one of the driver: it counts against the driver's limit, and its zone
is looked up under the driver's own label on nodes whose kubelet says that it has migrated.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from bayplan.blocks import Expression, NodeSelector, NodeSelectorTerm, PersistentVolume, Volume

MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
"""Annotation of a CSINode: what its kubelet leaves to CSI drivers."""

NOT_COUNTED = frozenset({"kubernetes.io/vsphere-volume", "kubernetes.io/azure-file"})
"""Provisioners that have a driver too, and whose volumes no limit counts."""

_ZONE = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_REGION, _OLD_REGION = "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"
_EBS_VOLUME = re.compile(r"aws://[^/]*/+(vol-[^/]*)/*")


@dataclass(frozen=True)
class Plugin:
    """A kind of disk that Kubernetes knew by itself."""

    field: str
    name: str
    driver: str
    handle: Callable[[Any], str]
    """What the driver calls the disk; ``""`` where it could not be told."""
    zone_label: str = ""
    """Where the driver's nodes say their zone; ``""`` where affinity is left as it is."""


def _ebs_handle(disk: Any) -> str:
    if not disk.volume_id.startswith("aws://"):
        return str(disk.volume_id)
    found = _EBS_VOLUME.fullmatch(disk.volume_id)
    return found[1] if found else ""


PLUGINS = (
    Plugin(
        "gce_persistent_disk",
        "kubernetes.io/gce-pd",
        "pd.csi.storage.gke.io",
        lambda disk: str(disk.pd_name),
        "topology.gke.io/zone",
    ),
    Plugin(
        "aws_elastic_block_store",
        "kubernetes.io/aws-ebs",
        "ebs.csi.aws.com",
        _ebs_handle,
        "topology.ebs.csi.aws.com/zone",
    ),
    Plugin(
        "cinder",
        "kubernetes.io/cinder",
        "cinder.csi.openstack.org",
        lambda disk: str(disk.volume_id),
        "topology.cinder.csi.openstack.org/zone",
    ),
    Plugin("azure_disk", "kubernetes.io/azure-disk", "disk.csi.azure.com", lambda disk: str(disk.disk_uri)),
    Plugin(
        "portworx_volume",
        "kubernetes.io/portworx-volume",
        "pxd.portworx.com",
        lambda disk: str(disk.volume_id),
    ),
)
DRIVERS = {plugin.name: plugin.driver for plugin in PLUGINS}


def plugin_of(volume: PersistentVolume) -> Plugin | None:
    """The kind of disk that a volume is; ``None`` for what was never built in."""
    return next((plugin for plugin in PLUGINS if getattr(volume.spec, plugin.field) is not None), None)


def driver_and_handle(source: PersistentVolume | Volume) -> tuple[str, str] | None:
    """Which driver serves a disk, and what tells it from the driver's others; ``None`` for no such disk.

    Disks of GCE have a name that is their own only within a zone.
    """
    place = source.labels if isinstance(source, PersistentVolume) else {}
    zone = next((place[key] for key in reversed(_ZONE) if place.get(key)), "")
    for plugin in PLUGINS:
        disk = getattr(source.spec if isinstance(source, PersistentVolume) else source, plugin.field)
        if disk is not None:
            handle = plugin.handle(disk)
            inside = f"{zone}/{handle}" if plugin.driver == "pd.csi.storage.gke.io" else handle
            return (plugin.driver, inside) if handle else None
    return None


def migrated_affinity(volume: PersistentVolume, plugin: Plugin) -> NodeSelector | None:
    """Where the volume can be reached from, in the words of the driver's nodes.

    The zone that the affinity names counts; else that of the volume's label.
    """
    affinity = volume.spec.node_affinity.required if volume.spec.node_affinity else None
    if not plugin.zone_label:
        return affinity
    terms = (affinity.node_selector_terms if affinity else None) or ()
    used = {one.key for term in terms for one in term.match_expressions or ()}
    zone = next((key for key in _ZONE if key in used), None)
    labelled = next((key for key in _ZONE if key in volume.labels), None)
    # An old zone label brings the old region label with it, which new nodes do not have.
    old = (zone or labelled) == _ZONE[1]
    renamed = {_OLD_REGION: _REGION} if old and _has_values(terms, _OLD_REGION) else {}
    if zone is not None and _has_values(terms, zone):
        return NodeSelector(_renamed(terms, {**renamed, zone: plugin.zone_label}))
    key = zone or labelled
    names = {part.strip() for part in volume.labels.get(key or "", "").split("__")} - {""}
    if not names:
        return affinity if not renamed else NodeSelector(_renamed(terms, renamed))
    within = Expression(plugin.zone_label, "In", tuple(sorted(names)))
    return NodeSelector(_with(_renamed(terms, renamed) or (NodeSelectorTerm(),), within))


def _has_values(terms: tuple[NodeSelectorTerm, ...], key: str) -> bool:
    return any(one.key == key and one.values for term in terms for one in term.match_expressions or ())


def _renamed(terms: tuple[NodeSelectorTerm, ...], keys: dict[str, str]) -> tuple[NodeSelectorTerm, ...]:
    return tuple(
        replace(
            term,
            match_expressions=tuple(
                replace(one, key=keys.get(one.key, one.key)) for one in term.match_expressions or ()
            ),
        )
        for term in terms
    )


def _with(terms: tuple[NodeSelectorTerm, ...], more: Expression) -> tuple[NodeSelectorTerm, ...]:
    return tuple(replace(term, match_expressions=(*(term.match_expressions or ()), more)) for term in terms)
