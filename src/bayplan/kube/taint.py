"""Taints on nodes, tolerations on pods, and whether one covers the other."""

from msgspec import Struct

from bayplan.kube.quantity import whole_number


class Taint(Struct, frozen=True, gc=False, omit_defaults=True):
    """A taint of a node: it repels pods that do not tolerate it."""

    key: str = ""
    value: str | None = None
    effect: str = ""


class Toleration(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """A toleration of a pod: with it the pod may go to nodes with such a taint."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Whether the toleration covers the taint, as in Kubernetes: an empty key or effect matches any."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        operator = self.operator or "Equal"
        if operator == "Exists":
            return True
        if operator in ("Lt", "Gt"):
            return _compares(operator, self.value, taint.value)
        return operator == "Equal" and (self.value or "") == (taint.value or "")


def _compares(operator: str, wanted: str | None, value: str | None) -> bool:
    left, right = whole_number(value or ""), whole_number(wanted or "")
    if left is None or right is None:
        return False
    return left < right if operator == "Lt" else left > right
