"""Objects that choose pods by a selector: Services, controllers, PodDisruptionBudgets; and Namespaces."""

from msgspec import Struct

from bayplan.kube.affinity import Selector
from bayplan.kube.meta import NamedObject


class ServiceSpec(Struct, frozen=True, gc=False, omit_defaults=True):
    """The part of a Service's ``spec`` that scheduling looks at."""

    selector: dict[str, str] | None = None


class Service(NamedObject, frozen=True, omit_defaults=True):
    """A Service, or a ReplicationController, which has the same plain selector."""

    spec: ServiceSpec = ServiceSpec()


class ReplicaSetSpec(Struct, frozen=True, gc=False, omit_defaults=True):
    """The part of a ReplicaSet's or StatefulSet's ``spec`` that scheduling looks at."""

    selector: Selector | None = None


class ReplicaSet(NamedObject, frozen=True, omit_defaults=True):
    """A ReplicaSet or a StatefulSet."""

    spec: ReplicaSetSpec = ReplicaSetSpec()


class DisruptionBudgetSpec(Struct, frozen=True, gc=False, omit_defaults=True):
    """The part of a PodDisruptionBudget's ``spec`` that scheduling looks at."""

    selector: Selector | None = None


class DisruptionBudgetStatus(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """How much disruption there may be now."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str] | None = None


class PodDisruptionBudget(NamedObject, frozen=True, omit_defaults=True):
    """A PodDisruptionBudget."""

    spec: DisruptionBudgetSpec = DisruptionBudgetSpec()
    status: DisruptionBudgetStatus = DisruptionBudgetStatus()


class Namespace(NamedObject, frozen=True, omit_defaults=True):
    """A Namespace: affinity terms between pods look at its labels."""
