"""The requests of a pod: the sum over its containers, as kube-scheduler computes it."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from msgspec import Struct, field
from msgspec.structs import force_setattr

from bayplan.kube.quantity import amount, of_thousandths, thousandths

Quantities = dict[str, str | int | float]

_HUGE_PAGES = "hugepages-"
NOTHING: Mapping[str, int] = MappingProxyType({})
SMALL_CONTAINER: Mapping[str, int] = MappingProxyType({"cpu": 100, "memory": 200 * 1024**2})
"""What a container without requests counts as when nodes are scored: a tenth of a core, 200 MiB."""


class Resources(Struct, frozen=True, gc=False, omit_defaults=True):
    """``resources`` of a container, or of a whole pod."""

    requests: Quantities | None = None
    limits: Quantities | None = None


class ContainerPort(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """A port of the node that a container takes."""

    host_port: int | None = None
    host_ip: str | None = field(name="hostIP", default=None)
    protocol: str | None = None


class RestartRule(Struct, frozen=True, gc=False, omit_defaults=True):
    """What a container's exit does to the pod."""

    action: str = ""


class Container(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """The part of a container that scheduling looks at."""

    name: str | None = None
    image: str | None = None
    resources: Resources | None = None
    restart_policy: str | None = None
    restart_policy_rules: tuple[RestartRule, ...] | None = None
    ports: tuple[ContainerPort, ...] | None = None

    def __post_init__(self) -> None:
        if self.ports is not None:
            # Only host ports are kept: most ports are the pod's own, and each container has a list of them.
            force_setattr(self, "ports", tuple([port for port in self.ports if port.host_port]) or None)


class Requests(Struct, frozen=True, gc=False, omit_defaults=True):
    """``resources`` in a status, of which only the requests are read."""

    requests: Quantities | None = None


class ContainerStatus(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """The requests that the kubelet reports for a running container."""

    name: str = ""
    resources: Requests | None = None
    """What the container has now."""
    allocated_resources: Quantities | None = None
    """What the kubelet has agreed to give the container."""


class Resize(Struct, frozen=True):
    """The resize of a placed pod: what it holds on its node while its spec has other requests."""

    containers: Mapping[str, ContainerStatus] = MappingProxyType({})
    """By name, the statuses of the containers whose requests differ from the spec."""
    whole: ContainerStatus | None = None
    """The status of the pod as a whole."""
    infeasible: bool = False
    """Whether the kubelet has refused the resize: then the requests of the spec do not count."""

    def of(self, name: str | None, asked: dict[str, int]) -> dict[str, int]:
        """What counts for a container with these requests, in thousandths."""
        return self._held(self.containers.get(name or ""), asked)

    def of_all(self, asked: dict[str, int]) -> dict[str, int]:
        """What counts for a pod with these pod-level requests, in thousandths."""
        held = self._held(self.whole, asked)
        return {resource: held.get(resource, 0) for resource in asked}

    def _held(self, says: ContainerStatus | None, asked: dict[str, int]) -> dict[str, int]:
        if says is None or says.resources is None:
            return asked
        held = {} if self.infeasible else dict(asked)
        _raise_to(held, _exact(says.resources.requests))
        _raise_to(held, _exact(says.allocated_resources))
        return held


NO_RESIZE = Resize()


def amounts(quantities: Quantities | None) -> dict[str, int]:
    """Exact integers by resource name: milli-CPU for ``cpu``, units for everything else."""
    if not quantities:
        return {}
    return {resource: amount(resource, text) for resource, text in quantities.items()}


def _exact(quantities: Quantities | None) -> dict[str, int]:
    """Thousandths by resource name: ``0.1Gi`` is no whole number of bytes, and a sum is rounded only once."""
    if not quantities:
        return {}
    return {resource: thousandths(text) for resource, text in quantities.items()}


def _container_requests(resources: Resources | None) -> dict[str, int]:
    """A container's requests, in thousandths; a limit without a request counts as the request.

    The API server sets that default itself; this is for manifests that have not been there yet.
    """
    if resources is None:
        return {}
    return {**_exact(resources.limits), **_exact(resources.requests)}


def pod_requests(
    containers: Iterable[Container],
    init_containers: Iterable[Container],
    *,
    overhead: Quantities | None = None,
    pod_level: Resources | None = None,
    missing: Mapping[str, int] = NOTHING,
    resize: Resize = NO_RESIZE,
) -> dict[str, int]:
    """The pod's peak requests, as kube-scheduler computes them.

    Init containers run one after another, so the largest counts, not the sum. Those with
    ``restartPolicy: Always`` (sidecars) keep running: they count beside the containers, and beside
    every init container that starts after them. Pod-level requests replace the sum per resource;
    overhead comes on top. ``missing`` are the default requests of each container. A container that is being
    made smaller still holds what it has, which is in ``resize``.
    """
    # In thousandths: kube-scheduler rounds the sum of a pod, not each container.
    missing = {resource: value if resource == "cpu" else 1000 * value for resource, value in missing.items()}
    running: dict[str, int] = {}
    for container in containers:
        asked = resize.of(container.name, _container_requests(container.resources))
        _add(running, {**missing, **asked})
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in init_containers:
        asked = _container_requests(container.resources)
        if container.restart_policy == "Always":
            asked = {**missing, **resize.of(container.name, asked)}
            _add(running, asked)
            _add(sidecars, asked)
            asked = {}
        else:
            asked = {**missing, **asked}
        starting = dict(sidecars)
        _add(starting, asked)
        _raise_to(peak, starting)
    _raise_to(running, peak)
    running |= resize.of_all(_pod_level_requests(pod_level, running))
    _add(running, _exact(overhead))
    return {resource: of_thousandths(resource, value) for resource, value in running.items()}


def says_for_all(resources: Resources | None) -> bool:
    """Whether ``spec.resources`` has a resource that Kubernetes supports at pod level."""
    given = {**(resources.limits or {}), **(resources.requests or {})} if resources else {}
    return any(map(_of_whole_pods, given))


def _of_whole_pods(resource: str) -> bool:
    return resource in ("cpu", "memory") or resource.startswith(_HUGE_PAGES)


def _pod_level_requests(resources: Resources | None, containers: Mapping[str, int]) -> dict[str, int]:
    """The requests of ``spec.resources``, for the resources that Kubernetes supports at pod level.

    A limit without a request counts as the request only if no container requests the resource; huge pages
    cannot be overcommitted, so their limit always counts. The API server sets the same defaults.
    """
    if resources is None:
        return {}
    limits = {
        resource: value
        for resource, value in _exact(resources.limits).items()
        if resource not in containers or resource.startswith(_HUGE_PAGES)
    }
    asked = limits | _exact(resources.requests)
    return {resource: value for resource, value in asked.items() if _of_whole_pods(resource)}


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for resource, value in more.items():
        total[resource] = total.get(resource, 0) + value


def _raise_to(total: dict[str, int], floor: Mapping[str, int]) -> None:
    for resource, value in floor.items():
        total[resource] = max(total.get(resource, 0), value)
