"""Label selectors that people write in a configuration: checked, so that a slip is found when it is read.

They mean what those of pods mean, which come unchecked.
"""

from typing import Literal

from msgspec import field

from bayplan.kube.affinity import Expression, Selector


class Requirement(Expression, frozen=True, forbid_unknown_fields=True, omit_defaults=False):
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


class LabelSelector(Selector, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=False):
    """Every label and every expression must match; an empty selector matches everything."""

    match_labels: dict[str, str] = field(default_factory=dict)
    match_expressions: tuple[Requirement, ...] = ()
