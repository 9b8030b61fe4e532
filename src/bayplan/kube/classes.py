"""What the API server looks up when a pod is created: PriorityClasses, RuntimeClasses, LimitRanges."""

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
    """What a runtime takes for itself, pod by pod."""

    pod_fixed: Quantities | None = None


class RuntimeScheduling(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """Where a runtime is to be found."""

    node_selector: dict[str, str] | None = None
    tolerations: list[Toleration] | None = None


class RuntimeClass(NamedObject, frozen=True, omit_defaults=True):
    """A RuntimeClass, as far as it says where its pods can run, and what they take."""

    overhead: Overhead | None = None
    scheduling: RuntimeScheduling | None = None


class LimitRangeItem(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """One line of a LimitRange; limits that it only checks are not read."""

    type: str = ""
    default_request: Quantities | None = None


class LimitRangeSpec(Struct, frozen=True, gc=False, omit_defaults=True):
    """The part of a LimitRange's ``spec`` that changes what pods ask for."""

    limits: tuple[LimitRangeItem, ...] = ()


class LimitRange(NamedObject, frozen=True, omit_defaults=True):
    """A LimitRange: what containers of a namespace ask for that do not say."""

    spec: LimitRangeSpec = LimitRangeSpec()
