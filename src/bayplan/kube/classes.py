"""Objects that the API server applies when a pod is created: PriorityClasses, RuntimeClasses, LimitRanges."""

from msgspec import Struct

from bayplan.kube.meta import NamedObject
from bayplan.kube.resources import Quantities
from bayplan.kube.taint import Toleration


class PriorityClass(NamedObject, frozen=True, omit_defaults=True, rename="camel"):
    """A PriorityClass: the number that a name stands for."""

    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None


class Overhead(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """``overhead``: what a runtime takes for itself, per pod."""

    pod_fixed: Quantities | None = None


class RuntimeScheduling(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """``scheduling``: the nodes that have the runtime."""

    node_selector: dict[str, str] | None = None
    tolerations: list[Toleration] | None = None


class RuntimeClass(NamedObject, frozen=True, omit_defaults=True):
    """A RuntimeClass: its pods' overhead, and the nodes that have the runtime."""

    overhead: Overhead | None = None
    scheduling: RuntimeScheduling | None = None


class LimitRangeItem(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """An item of a LimitRange; limits that are only checked are not read."""

    type: str = ""
    default_request: Quantities | None = None


class LimitRangeSpec(Struct, frozen=True, gc=False, omit_defaults=True):
    """The part of a LimitRange's ``spec`` that changes what pods ask for."""

    limits: tuple[LimitRangeItem, ...] = ()


class LimitRange(NamedObject, frozen=True, omit_defaults=True):
    """A LimitRange: the default requests of a namespace's containers."""

    spec: LimitRangeSpec = LimitRangeSpec()
