"""A pod, as the API server sends it and as policy authors like to read it."""

from collections.abc import Mapping
from functools import cached_property

from msgspec import Struct

from bayplan.kube.meta import EMPTY, NO_META, ObjectMeta, OwnerReference
from bayplan.kube.resources import Container, Quantities, Resources, pod_requests
from bayplan.kube.taint import Taint, Toleration


class PodSpec(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """The part of ``spec`` that scheduling looks at."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    host_network: bool | None = None
    overhead: Quantities | None = None
    resources: Resources | None = None
    node_name: str | None = None
    node_selector: dict[str, str] | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    runtime_class_name: str | None = None
    scheduler_name: str | None = None
    service_account_name: str | None = None
    tolerations: list[Toleration] | None = None


class PodStatus(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """The part of ``status`` that scheduling looks at."""

    phase: str | None = None
    nominated_node_name: str | None = None
    qos_class: str | None = None


NO_SPEC = PodSpec()
NO_STATUS = PodStatus()


class Pod(Struct, frozen=True, rename="camel", dict=True, omit_defaults=True):
    """A pod. Read the properties: they are never ``None`` where a value can be empty.

    ``metadata``, ``spec`` and ``status`` hold what was sent; any part of them may be missing.
    """

    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None
    status: PodStatus | None = None

    @property
    def name(self) -> str:
        """``metadata.name``."""
        return self._meta.name or ""

    @property
    def namespace(self) -> str:
        """``metadata.namespace``; ``default`` where a manifest leaves it out."""
        return self._meta.namespace or "default"

    @property
    def key(self) -> str:
        """``namespace/name``, as kubectl and logs write it."""
        return f"{self.namespace}/{self.name}"

    @property
    def uid(self) -> str:
        """``metadata.uid``: the one identity that is never used again."""
        return self._meta.uid or ""

    @property
    def labels(self) -> Mapping[str, str]:
        """``metadata.labels``."""
        return self._meta.labels or EMPTY

    @property
    def annotations(self) -> Mapping[str, str]:
        """``metadata.annotations``."""
        return self._meta.annotations or EMPTY

    @property
    def owner(self) -> OwnerReference | None:
        """The controller that made this pod, or ``None`` for a pod made by hand."""
        for reference in self._meta.owner_references or ():
            if reference.controller:
                return reference
        return None

    @property
    def terminating(self) -> bool:
        """Whether the pod is being deleted."""
        return self._meta.deletion_timestamp is not None

    @property
    def finished(self) -> bool:
        """Whether the pod ran to its end: it holds nothing on its node any more."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def phase(self) -> str:
        """``status.phase``; ``Pending`` where it is not said."""
        return (self.status or NO_STATUS).phase or "Pending"

    @property
    def node_name(self) -> str:
        """The node that the pod is bound to, or ``""``."""
        return self._spec.node_name or ""

    @property
    def node_selector(self) -> Mapping[str, str]:
        """``spec.nodeSelector``."""
        return self._spec.node_selector or EMPTY

    @property
    def priority(self) -> int:
        """``spec.priority``; 0 where it is not said."""
        return self._spec.priority or 0

    @property
    def priority_class_name(self) -> str:
        """``spec.priorityClassName``, or ``""``."""
        return self._spec.priority_class_name or ""

    @property
    def scheduler_name(self) -> str:
        """``spec.schedulerName``; ``default-scheduler`` where it is not said."""
        return self._spec.scheduler_name or "default-scheduler"

    @property
    def service_account_name(self) -> str:
        """``spec.serviceAccountName``, or ``""``."""
        return self._spec.service_account_name or ""

    @property
    def containers(self) -> tuple[Container, ...]:
        """``spec.containers``."""
        return tuple(self._spec.containers or ())

    @property
    def init_containers(self) -> tuple[Container, ...]:
        """``spec.initContainers``."""
        return tuple(self._spec.init_containers or ())

    @property
    def tolerations(self) -> tuple[Toleration, ...]:
        """``spec.tolerations``."""
        return tuple(self._spec.tolerations or ())

    def tolerates(self, taint: Taint) -> bool:
        """Whether one of the pod's tolerations covers the taint."""
        return any(toleration.tolerates(taint) for toleration in self.tolerations)

    @cached_property
    def requests(self) -> Mapping[str, int]:
        """What the pod needs, by resource: milli-CPU for ``cpu``, bytes or units for the rest."""
        spec = self._spec
        return pod_requests(
            spec.containers or (),
            spec.init_containers or (),
            overhead=spec.overhead,
            pod_level=spec.resources,
        )

    def request(self, resource: str) -> int:
        """What the pod needs of one resource; 0 where it asks for none."""
        return self.requests.get(resource, 0)

    @property
    def cpu_milli(self) -> int:
        """CPU that the pod requests, in thousandths of a core."""
        return self.request("cpu")

    @property
    def memory_bytes(self) -> int:
        """Memory that the pod requests."""
        return self.request("memory")

    @property
    def _meta(self) -> ObjectMeta:
        return self.metadata or NO_META

    @property
    def _spec(self) -> PodSpec:
        return self.spec or NO_SPEC
