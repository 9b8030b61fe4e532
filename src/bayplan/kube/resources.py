"""What a pod asks of a node: the sum that kube-scheduler makes over its containers."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from msgspec import Struct, field
from msgspec.structs import force_setattr

from bayplan.kube.quantity import INT64_MAX, amount

Quantities = dict[str, str | int | float]

_HUGE_PAGES = "hugepages-"
NOTHING: Mapping[str, int] = MappingProxyType({})
SMALL_CONTAINER: Mapping[str, int] = MappingProxyType({"cpu": 100, "memory": 200 * 1024**2})
"""What a container that asks for nothing counts as where nodes are scored: a tenth of a core, 200 MiB."""


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
            # Most ports are the pod's own: no node is asked for them, and there is one list a container.
            force_setattr(self, "ports", tuple([port for port in self.ports if port.host_port]) or None)


def amounts(quantities: Quantities | None) -> dict[str, int]:
    """Exact integers by resource name: milli-CPU for ``cpu``, units for everything else."""
    if not quantities:
        return {}
    return {resource: amount(resource, text) for resource, text in quantities.items()}


def container_requests(resources: Resources | None, missing: Mapping[str, int] = NOTHING) -> dict[str, int]:
    """A container's requests; what has a limit and no request asks for the limit.

    The API server does that defaulting itself; a manifest written by hand has not been there yet. ``missing``
    is what counts for a resource of which the container says nothing.
    """
    if resources is None:
        return dict(missing)
    return {**missing, **amounts(resources.limits), **amounts(resources.requests)}


def pod_requests(
    containers: Iterable[Container],
    init_containers: Iterable[Container],
    *,
    overhead: Quantities | None = None,
    pod_level: Resources | None = None,
    missing: Mapping[str, int] = NOTHING,
) -> dict[str, int]:
    """What the pod needs at its hungriest moment, as kube-scheduler counts it.

    Init containers run one after another, so the largest counts, not the sum. Those with
    ``restartPolicy: Always`` (sidecars) keep running: they count beside the containers, and beside
    every init container that starts after them. Pod-level requests replace the sum per resource;
    overhead comes on top. ``missing`` is what each container asks for where it does not say.
    """
    running: dict[str, int] = {}
    for container in containers:
        _add(running, container_requests(container.resources, missing))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in init_containers:
        asked = container_requests(container.resources, missing)
        if container.restart_policy == "Always":
            _add(running, asked)
            _add(sidecars, asked)
            asked = {}
        starting = dict(sidecars)
        _add(starting, asked)
        _raise_to(peak, starting)
    _raise_to(running, peak)
    running |= _pod_level_requests(pod_level, running)
    _add(running, amounts(overhead))
    return running


def says_for_all(resources: Resources | None) -> bool:
    """Whether ``spec.resources`` asks for something that Kubernetes knows for a whole pod."""
    given = {**(resources.limits or {}), **(resources.requests or {})} if resources else {}
    return any(map(_of_whole_pods, given))


def _of_whole_pods(resource: str) -> bool:
    return resource in ("cpu", "memory") or resource.startswith(_HUGE_PAGES)


def _pod_level_requests(resources: Resources | None, containers: Mapping[str, int]) -> dict[str, int]:
    """What ``spec.resources`` asks for, where Kubernetes knows pod-level resources.

    A limit without a request asks for the limit only where no container asks for anything; huge
    pages cannot be overcommitted, so their limit always counts. The API server defaults it so.
    """
    if resources is None:
        return {}
    limits = {
        resource: value
        for resource, value in amounts(resources.limits).items()
        if resource not in containers or resource.startswith(_HUGE_PAGES)
    }
    asked = limits | amounts(resources.requests)
    return {resource: value for resource, value in asked.items() if _of_whole_pods(resource)}


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for resource, value in more.items():
        total[resource] = min(total.get(resource, 0) + value, INT64_MAX)


def _raise_to(total: dict[str, int], floor: Mapping[str, int]) -> None:
    for resource, value in floor.items():
        total[resource] = max(total.get(resource, 0), value)
