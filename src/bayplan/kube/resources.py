"""What a pod asks of a node: the sum that kube-scheduler makes over its containers."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from msgspec import Struct, field
from msgspec.structs import force_setattr

from bayplan.kube.quantity import amount, of_thousandths, thousandths

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


class Requests(Struct, frozen=True, gc=False, omit_defaults=True):
    """``resources`` in a status, of which only the requests are read."""

    requests: Quantities | None = None


class ContainerStatus(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """What the kubelet says of the requests of a container that runs."""

    name: str = ""
    resources: Requests | None = None
    """What it has now."""
    allocated_resources: Quantities | None = None
    """What the kubelet has agreed to give it."""


class Resize(Struct, frozen=True):
    """A placed pod whose requests were changed: what it holds, whatever it asks for by now."""

    containers: Mapping[str, ContainerStatus] = MappingProxyType({})
    """By name, those of which the kubelet says something else than the spec."""
    whole: ContainerStatus | None = None
    """Of the pod as a whole."""
    infeasible: bool = False
    """Whether the kubelet has said no: what the pod asks for does not count then."""

    def of(self, name: str | None, asked: dict[str, int]) -> dict[str, int]:
        """What counts for a container that asks for this, in thousandths."""
        return self._held(self.containers.get(name or ""), asked)

    def of_all(self, asked: dict[str, int]) -> dict[str, int]:
        """What counts for a pod that asks for this as a whole, in thousandths."""
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
    """Thousandths by resource name: ``0.1Gi`` is no whole number of bytes, and twice that is rounded once."""
    if not quantities:
        return {}
    return {resource: thousandths(text) for resource, text in quantities.items()}


def _container_requests(resources: Resources | None) -> dict[str, int]:
    """A container's requests, in thousandths; what has a limit and no request asks for the limit.

    The API server does that defaulting itself; a manifest written by hand has not been there yet.
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
    """What the pod needs at its hungriest moment, as kube-scheduler counts it.

    Init containers run one after another, so the largest counts, not the sum. Those with
    ``restartPolicy: Always`` (sidecars) keep running: they count beside the containers, and beside
    every init container that starts after them. Pod-level requests replace the sum per resource;
    overhead comes on top. ``missing`` is what each container asks for where it does not say. A container
    that is being made smaller holds what it has until the kubelet took it away: ``resize`` knows.
    """
    # Added up in thousandths: kube-scheduler rounds what a pod asks for, and not each of its containers.
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
