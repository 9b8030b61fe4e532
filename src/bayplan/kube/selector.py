"""Label selectors, with the operators and the meaning that Kubernetes gives them."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct


class Requirement(Struct, frozen=True, forbid_unknown_fields=True):
    """One line of ``matchExpressions``."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        takes_values = self.operator in ("In", "NotIn")
        if takes_values != bool(self.values):
            raise ValueError(
                f"{self.operator} {'needs' if takes_values else 'takes no'} values (key {self.key!r})"
            )

    def matches(self, labels: Mapping[str, str]) -> bool:
        """A missing label satisfies ``NotIn``, as in Kubernetes."""
        if self.operator == "Exists":
            return self.key in labels
        if self.operator == "DoesNotExist":
            return self.key not in labels
        return (labels.get(self.key) in self.values) == (self.operator == "In")


class LabelSelector(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Every label and every expression must match; an empty selector matches everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            requirement.matches(labels) for requirement in self.match_expressions
        )
