"""The Pod: the fields that scheduling looks at, as the API server sends them, and properties for policies."""

from collections.abc import Mapping
from functools import cached_property

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from bayplan.kube.affinity import Affinity, TopologySpreadConstraint
from bayplan.kube.meta import NO_META, ObjectMeta, OwnerReference, only_read
from bayplan.kube.resources import (
    NO_RESIZE,
    SMALL_CONTAINER,
    Container,
    ContainerStatus,
    Quantities,
    Requests,
    Resize,
    Resources,
    pod_requests,
    says_for_all,
)
from bayplan.kube.taint import Taint, Toleration
from bayplan.kube.volumes import Volume

HostPort = tuple[str, str, int]
_ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - what a pod asks for, nothing that is listened on


class NamedThing(Struct, frozen=True, gc=False, omit_defaults=True):
    """A list item of which only the name is read: a scheduling gate, a resource claim."""

    name: str = ""


class PodSpec(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """The part of ``spec`` that scheduling looks at."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    host_network: bool | None = None
    host_users: bool | None = None
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
    affinity: Affinity | None = None
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] | None = None
    volumes: tuple[Volume, ...] | None = None
    scheduling_gates: tuple["NamedThing", ...] | None = None
    resource_claims: tuple["NamedThing", ...] | None = None

    def __post_init__(self) -> None:
        if self.volumes is not None:
            # Config maps, secrets and the like do not restrict where a pod can run.
            force_setattr(self, "volumes", tuple(each for each in self.volumes if each.counts) or None)


class Condition(Struct, frozen=True, gc=False, omit_defaults=True):
    """An item of ``status.conditions``; only two types are kept.

    ``DisruptionTarget`` says why a pod is being evicted, ``PodResizePending`` that its resize must wait.
    """

    type: str = ""
    status: str = ""
    reason: str = ""


class PodStatus(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """The part of ``status`` that scheduling looks at."""

    phase: str | None = None
    nominated_node_name: str | None = None
    qos_class: str | None = None
    start_time: str | None = None
    conditions: tuple[Condition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    resources: Requests | None = None
    allocated_resources: Quantities | None = None

    def __post_init__(self) -> None:
        if self.conditions is not None:
            # Every pod has half a dozen other conditions, such as Ready, that we do not read.
            # No generator, which is slower: this runs for every pod of the cluster.
            kept = [each for each in self.conditions if each.type in _KEPT_CONDITIONS]
            force_setattr(self, "conditions", tuple(kept) or None)

    def condition(self, kind: str) -> Condition | None:
        """The condition of that type; ``None`` if there is none, or if the type is not kept."""
        for each in self.conditions or ():
            if each.type == kind:
                return each
        return None


_KEPT_CONDITIONS = ("DisruptionTarget", "PodResizePending")
NO_AFFINITY = Affinity()
NO_SPEC = PodSpec()
NO_STATUS = PodStatus()


class Pod(Struct, frozen=True, rename="camel", dict=True, omit_defaults=True):
    """A pod. Read its properties: where a value can be empty, they are never ``None``.

    ``metadata``, ``spec`` and ``status`` are as the API server sent them; any part of them may be missing.
    """

    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None
    status: PodStatus | None = None

    def __post_init__(self) -> None:
        # Every running container has a status, which nearly always repeats the spec: those are dropped. This
        # runs for every pod of the cluster, so it makes as few calls as possible.
        status, spec = self.status, self.spec
        if status is None or spec is None:
            return
        if status.container_statuses:
            differing = _differing(status.container_statuses, spec.containers)
            force_setattr(status, "container_statuses", differing)
        if status.init_container_statuses:
            differing = _differing(status.init_container_statuses, spec.init_containers)
            force_setattr(status, "init_container_statuses", differing)

    @property
    def name(self) -> str:
        """``metadata.name``."""
        return self._meta.name or ""

    @property
    def namespace(self) -> str:
        """``metadata.namespace``; ``default`` if a manifest leaves it out."""
        return self._meta.namespace or "default"

    @property
    def key(self) -> str:
        """``namespace/name``, as kubectl and logs write it."""
        return f"{self.namespace}/{self.name}"

    @property
    def uid(self) -> str:
        """``metadata.uid``: unlike the name, it is never used again."""
        return self._meta.uid or ""

    @property
    def generation(self) -> int:
        """``metadata.generation``: how often its spec has changed; 0 before Kubernetes 1.33."""
        return self._meta.generation or 0

    @property
    def labels(self) -> Mapping[str, str]:
        """``metadata.labels``."""
        return only_read(self._meta.labels)

    @property
    def annotations(self) -> Mapping[str, str]:
        """``metadata.annotations``."""
        return only_read(self._meta.annotations)

    @property
    def owner(self) -> OwnerReference | None:
        """The controller that owns the pod; ``None`` if there is none."""
        for reference in self._meta.owner_references or ():
            if reference.controller:
                return reference
        return None

    @property
    def terminating(self) -> bool:
        """Whether the pod is being deleted."""
        return self._meta.deletion_timestamp is not None

    @property
    def preempted(self) -> bool:
        """Whether the pod is being deleted because a scheduler preempted it."""
        target = (self.status or NO_STATUS).condition("DisruptionTarget")
        if target is None or not self.terminating:
            return False
        return target.status == "True" and target.reason == "PreemptionByScheduler"

    @property
    def finished(self) -> bool:
        """Whether the pod has succeeded or failed: it no longer holds anything on its node."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def phase(self) -> str:
        """``status.phase``; ``Pending`` by default."""
        return (self.status or NO_STATUS).phase or "Pending"

    @property
    def node_name(self) -> str:
        """The node that the pod is bound to, or ``""``."""
        return self._spec.node_name or ""

    @property
    def node_selector(self) -> Mapping[str, str]:
        """``spec.nodeSelector``."""
        return only_read(self._spec.node_selector)

    @property
    def priority(self) -> int:
        """``spec.priority``; 0 by default."""
        return self._spec.priority or 0

    @property
    def preemption_policy(self) -> str:
        """``spec.preemptionPolicy``; ``PreemptLowerPriority`` by default."""
        return self._spec.preemption_policy or "PreemptLowerPriority"

    @property
    def start_time(self) -> str:
        """``status.startTime``, or ``""`` for a pod that has not started."""
        return (self.status or NO_STATUS).start_time or ""

    @property
    def priority_class_name(self) -> str:
        """``spec.priorityClassName``, or ``""``."""
        return self._spec.priority_class_name or ""

    @property
    def scheduler_name(self) -> str:
        """``spec.schedulerName``; ``default-scheduler`` by default."""
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

    @property
    def affinity(self) -> Affinity:
        """``spec.affinity``; empty if there is none."""
        return self._spec.affinity or NO_AFFINITY

    @cached_property
    def affinity_text(self) -> bytes:
        """The pod's affinity terms about other pods as one text; ``b""`` if there are none."""
        affinity = self._spec.affinity
        if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
            return b""
        return msgspec.json.encode((affinity.pod_affinity, affinity.pod_anti_affinity), order="sorted")

    @cached_property
    def host_ports(self) -> tuple[HostPort, ...]:
        """The host ports that the pod takes: protocol, address, number."""
        # Most pods take none, and this runs for every pod.
        asking = [c for c in self._spec.containers or () if c.ports]
        asking += [c for c in self._spec.init_containers or () if c.ports and c.restart_policy == "Always"]
        taken = [port for c in asking for port in c.ports or ()]
        return tuple((p.protocol or "TCP", p.host_ip or _ANY_ADDRESS, p.host_port or 0) for p in taken)

    @property
    def host_network(self) -> bool:
        """Whether the pod shares the node's network."""
        return bool(self._spec.host_network)

    @property
    def own_users(self) -> bool:
        """Whether ``spec.hostUsers`` is false: the pod has a user namespace of its own."""
        return self._spec.host_users is False

    @property
    def gated(self) -> bool:
        """Whether the pod has scheduling gates, so that it must not be scheduled yet."""
        return bool(self._spec.scheduling_gates)

    @property
    def volumes(self) -> tuple[Volume, ...]:
        """Those of ``spec.volumes`` that scheduling looks at: claims and disks, no secrets."""
        return self._spec.volumes or ()

    @property
    def _resize(self) -> Resize:
        """The requests in the pod's status, where the kubelet reports others than the spec."""
        status = self.status
        if status is None or not (
            status.container_statuses or status.init_container_statuses or status.resources
        ):
            return NO_RESIZE
        told = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
        pending = status.condition("PodResizePending")
        return Resize(
            {one.name: one for one in told},
            whole=ContainerStatus("", status.resources, status.allocated_resources),
            infeasible=pending is not None and pending.reason == "Infeasible",
        )

    @cached_property
    def requests(self) -> Mapping[str, int]:
        """What the pod requests, by resource: milli-CPU for ``cpu``, bytes or units for the rest.

        While a pod is resized on its node, the larger of the new request and what it still has counts.
        """
        spec = self._spec
        found = pod_requests(
            spec.containers or (),
            spec.init_containers or (),
            overhead=spec.overhead,
            pod_level=spec.resources,
            resize=self._resize,
        )
        return only_read(found)

    @cached_property
    def nonzero_requests(self) -> tuple[int, int]:
        """The milli-CPU and bytes of memory that kube-scheduler counts for a placed pod when it scores nodes.

        A container without a request counts as 100m and 200Mi, so that many of them do not count as nothing.
        Where ``spec.resources`` has a request for the whole pod, that counts.
        """
        spec, known = self._spec, self.requests
        missing = SMALL_CONTAINER
        if says_for_all(spec.resources):
            missing = {resource: least for resource, least in missing.items() if resource not in known}
        counted = pod_requests(
            spec.containers or (),
            spec.init_containers or (),
            overhead=spec.overhead,
            pod_level=spec.resources,
            missing=missing,
            resize=self._resize,
        )
        return counted.get("cpu", 0), counted.get("memory", 0)

    def request(self, resource: str) -> int:
        """What the pod requests of one resource; 0 if nothing."""
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


def same_resize(one: Pod, other: Pod) -> bool:
    """Whether the kubelet reports the same resize for both: with equal specs, they then request the same."""
    return one._resize == other._resize


def _differing(
    told: tuple[ContainerStatus, ...], containers: list[Container] | None
) -> tuple[ContainerStatus, ...] | None:
    """The statuses whose requests differ from the spec."""
    kept: list[ContainerStatus] = []
    for one in told:
        has, given = one.resources, one.allocated_resources
        if has is None:
            continue
        for container in containers or ():
            if container.name == one.name:
                asked = container.resources.requests if container.resources is not None else None
                if has.requests != asked or (given is not None and given != asked):
                    kept.append(one)
                break
    return tuple(kept) or None
