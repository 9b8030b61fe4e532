"""Volumes of a pod and the storage objects behind them: the parts that scheduling looks at.

Nothing of secrets, config maps or a driver's attributes is read.
"""

from operator import attrgetter

from msgspec import Struct, field

from bayplan.kube.affinity import NodeSelector, Selector
from bayplan.kube.meta import NamedObject
from bayplan.kube.resources import Quantities, Resources


class ClaimSource(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """``persistentVolumeClaim`` of a volume."""

    claim_name: str = ""
    read_only: bool | None = None


class NamedDisk(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """``gcePersistentDisk``, ``cinder``, ``iscsi``, ``rbd`` and the like: each uses some of the fields."""

    pd_name: str = ""
    volume_id: str = field(name="volumeID", default="")
    disk_uri: str = field(name="diskURI", default="")
    iqn: str = ""
    monitors: tuple[str, ...] | None = None
    image: str = ""
    pool: str = ""
    read_only: bool | None = None


class InlineCSI(Struct, frozen=True, gc=False, omit_defaults=True):
    """``csi`` of a volume: the driver alone."""

    driver: str = ""


class ImageVolume(Struct, frozen=True, gc=False, omit_defaults=True):
    """``image`` of a volume: the files of a container image."""

    reference: str = ""


class Present(Struct, frozen=True, gc=False):
    """Something is there, and what it is does not matter."""


class Volume(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """One line of ``spec.volumes``."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: Present | None = None
    csi: InlineCSI | None = None
    gce_persistent_disk: NamedDisk | None = None
    aws_elastic_block_store: NamedDisk | None = None
    azure_disk: NamedDisk | None = None
    cinder: NamedDisk | None = None
    portworx_volume: NamedDisk | None = None
    iscsi: NamedDisk | None = None
    rbd: NamedDisk | None = None
    image: ImageVolume | None = None

    @property
    def counts(self) -> bool:
        """Whether scheduling looks at it at all."""
        # There is one for each volume of each pod, and most have nothing to say.
        return _sources(self) != _NO_SOURCES


_SOURCES = tuple(name for name in Volume.__struct_fields__ if name != "name")
_sources, _NO_SOURCES = attrgetter(*_SOURCES), (None,) * len(_SOURCES)


class ClaimSpec(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """The part of a claim's ``spec`` that scheduling looks at."""

    volume_name: str | None = None
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] | None = None
    resources: Resources | None = None
    selector: Selector | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class ClaimStatus(Struct, frozen=True, gc=False, omit_defaults=True):
    """The part of a claim's ``status`` that scheduling looks at."""

    phase: str | None = None


class PersistentVolumeClaim(NamedObject, frozen=True, omit_defaults=True):
    """A claim."""

    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class ObjectReference(Struct, frozen=True, gc=False, omit_defaults=True):
    """``claimRef`` of a volume."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeNodeAffinity(Struct, frozen=True, gc=False, omit_defaults=True):
    """Where a volume can be reached from."""

    required: NodeSelector | None = None


class VolumeCSI(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """``csi`` of a PersistentVolume."""

    driver: str = ""
    volume_handle: str = ""


class VolumeSpec(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """The part of a volume's ``spec`` that scheduling looks at."""

    capacity: Quantities | None = None
    access_modes: tuple[str, ...] | None = None
    claim_ref: ObjectReference | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: str | None = None
    csi: VolumeCSI | None = None
    gce_persistent_disk: NamedDisk | None = None
    aws_elastic_block_store: NamedDisk | None = None
    azure_disk: NamedDisk | None = None
    cinder: NamedDisk | None = None
    portworx_volume: NamedDisk | None = None


class VolumeStatus(Struct, frozen=True, gc=False, omit_defaults=True):
    """The part of a volume's ``status`` that scheduling looks at."""

    phase: str | None = None


class PersistentVolume(NamedObject, frozen=True, omit_defaults=True):
    """A volume of the cluster."""

    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()


class TopologyTerm(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """One of a StorageClass' ``allowedTopologies``."""

    match_label_expressions: tuple["TopologyExpression", ...] | None = None


class TopologyExpression(Struct, frozen=True, gc=False, omit_defaults=True):
    """A label and the values that it may have."""

    key: str = ""
    values: tuple[str, ...] | None = None


class StorageClass(NamedObject, frozen=True, omit_defaults=True, rename="camel"):
    """A StorageClass."""

    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologyTerm, ...] | None = None


class DriverLimit(Struct, frozen=True, gc=False, omit_defaults=True):
    """``allocatable`` of a driver on a node."""

    count: int | None = None


class NodeDriver(Struct, frozen=True, gc=False, omit_defaults=True):
    """A CSI driver on a node."""

    name: str = ""
    allocatable: DriverLimit | None = None


class CSINodeSpec(Struct, frozen=True, gc=False, omit_defaults=True):
    """The part of a CSINode's ``spec`` that scheduling looks at."""

    drivers: tuple[NodeDriver, ...] | None = None


class CSINode(NamedObject, frozen=True, omit_defaults=True):
    """What CSI drivers a node has."""

    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """The part of a CSIDriver's ``spec`` that scheduling looks at."""

    storage_capacity: bool | None = None
    attach_required: bool | None = None


class CSIDriver(NamedObject, frozen=True, omit_defaults=True):
    """A CSI driver."""

    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(NamedObject, frozen=True, omit_defaults=True, rename="camel"):
    """How much a driver can still provision on some nodes."""

    storage_class_name: str = ""
    node_topology: Selector | None = None
    capacity: str | int | float | None = None
    maximum_volume_size: str | int | float | None = None


class VolumeAttachmentSource(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """What is attached."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """Where a volume is attached, and by whom."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachment(NamedObject, frozen=True, omit_defaults=True):
    """A volume that is attached to a node, or about to be."""

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
