"""A Node object, as the API server and kube-scheduler send it."""

from collections.abc import Mapping
from functools import cached_property

from msgspec import Struct, field

from bayplan.kube.meta import NO_META, ObjectMeta, only_read
from bayplan.kube.resources import Quantities, amounts
from bayplan.kube.taint import Taint


class NodeSpec(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """The part of ``spec`` that scheduling looks at."""

    unschedulable: bool | None = None
    taints: list[Taint] | None = None
    provider_id: str | None = field(name="providerID", default=None)


class NodeCondition(Struct, frozen=True, gc=False, omit_defaults=True):
    """One line of ``status.conditions``, such as Ready or MemoryPressure."""

    type: str = ""
    status: str = ""


class NodeAddress(Struct, frozen=True, gc=False, omit_defaults=True):
    """One line of ``status.addresses``, such as InternalIP."""

    type: str = ""
    address: str = ""


class NodeInfo(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """``status.nodeInfo``: what the machine runs."""

    architecture: str = ""
    operating_system: str = ""
    os_image: str = ""
    kernel_version: str = ""
    kubelet_version: str = ""
    container_runtime_version: str = ""


class ContainerImage(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """An image that is on a node."""

    names: tuple[str, ...] | None = None
    size_bytes: int = 0


class NodeStatus(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """The part of ``status`` that scheduling looks at."""

    allocatable: Quantities | None = None
    capacity: Quantities | None = None
    conditions: list[NodeCondition] | None = None
    addresses: list[NodeAddress] | None = None
    node_info: NodeInfo | None = None
    declared_features: tuple[str, ...] | None = None


NO_SPEC = NodeSpec()
NO_STATUS = NodeStatus()


class NodeObject(Struct, frozen=True, dict=True, omit_defaults=True):
    """A Node as it was sent. Policies read it through ``bayplan.Node``, which knows its table too."""

    metadata: ObjectMeta | None = None
    spec: NodeSpec | None = None
    status: NodeStatus | None = None

    @cached_property
    def name(self) -> str:
        """``metadata.name``."""
        return (self.metadata or NO_META).name or ""

    @property
    def uid(self) -> str:
        """``metadata.uid``."""
        return (self.metadata or NO_META).uid or ""

    @property
    def internal_ip(self) -> str:
        """The first address of type InternalIP; ``""`` where there is none."""
        there = (self.status or NO_STATUS).addresses or ()
        return next((each.address for each in there if each.type == "InternalIP"), "")

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """``metadata.labels``."""
        return only_read((self.metadata or NO_META).labels)

    @property
    def annotations(self) -> Mapping[str, str]:
        """``metadata.annotations``."""
        return only_read((self.metadata or NO_META).annotations)

    @property
    def unschedulable(self) -> bool:
        """``spec.unschedulable``: the node is cordoned."""
        return bool((self.spec or NO_SPEC).unschedulable)

    @property
    def taints(self) -> tuple[Taint, ...]:
        """``spec.taints``."""
        return tuple((self.spec or NO_SPEC).taints or ())

    @cached_property
    def ready(self) -> bool:
        """Whether the Ready condition is True."""
        conditions = (self.status or NO_STATUS).conditions or ()
        return any(c.type == "Ready" and c.status == "True" for c in conditions)

    @property
    def declared_features(self) -> tuple[str, ...]:
        """``status.declaredFeatures``: what the kubelet says that it can do."""
        return (self.status or NO_STATUS).declared_features or ()

    @cached_property
    def allocatable(self) -> Mapping[str, int]:
        """What pods may use, by resource: milli-CPU for ``cpu``, bytes or units for the rest.

        A Node without ``allocatable`` offers its capacity, as the API server fills it in.
        """
        status = self.status or NO_STATUS
        return only_read(amounts(status.allocatable or status.capacity))

    @cached_property
    def capacity(self) -> Mapping[str, int]:
        """What the machine has, by resource."""
        return only_read(amounts((self.status or NO_STATUS).capacity))


class NodeStatusWithImages(NodeStatus, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """The status with the list of images: 50 on each node of a large cluster, for one rule."""

    images: tuple[ContainerImage, ...] | None = None


class NodeWithImages(NodeObject, frozen=True, dict=True, omit_defaults=True):
    """A Node whose images are read too, where somebody looks at them."""

    status: NodeStatusWithImages | None = None

    @cached_property
    def images(self) -> Mapping[str, int]:
        """Bytes of each image, by every name that it has."""
        there = (self.status.images if self.status else None) or ()
        return only_read({name: image.size_bytes for image in there for name in image.names or ()})
