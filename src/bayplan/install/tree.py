"""Objects with gaps: a description that is filled in here, or printed as a template for Helm to fill in.

A tree is made of dicts, lists and plain values as YAML has them, with the nodes below where something depends
on the values of an installation. `evaluate` fills it in, `helm` prints it; there is no second description.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Tree = Any
"""A plain value, a list or dict of trees, or one of the nodes of this file."""


@dataclass(frozen=True)
class Is:
    """A value is this text."""

    path: str
    text: str


@dataclass(frozen=True)
class Given:
    """A value is there: not empty, not false, not 0."""

    path: str


@dataclass(frozen=True)
class MoreThan:
    """A value is a number above this one."""

    path: str
    number: int


@dataclass(frozen=True)
class AtLeast:
    """The cluster is of Kubernetes 1.MINOR or newer."""

    minor: int


@dataclass(frozen=True)
class InNamespace:
    """The installation goes into this namespace."""

    name: str


@dataclass(frozen=True)
class Configured:
    """A key of the user's BayplanConfiguration is there and true."""

    path: str


@dataclass(frozen=True)
class Known:
    """A text that is worked out, see `names`, is not empty."""

    name: str


@dataclass(frozen=True)
class ByHelm:
    """It is Helm that fills in."""


@dataclass(frozen=True)
class Not:
    """The opposite."""

    condition: "Condition"


class _Several:
    conditions: tuple["Condition", ...]

    def __init__(self, *conditions: "Condition") -> None:
        self.conditions = conditions


class All(_Several):
    """All of these."""


class Either(_Several):
    """At least one of these."""


Condition = Is | Given | MoreThan | AtLeast | InNamespace | Configured | Known | ByHelm | Not | All | Either


@dataclass(frozen=True)
class Value:
    """A text, a number, true or false out of the values: ``Value("image.pullPolicy")``."""

    path: str


@dataclass(frozen=True)
class Block:
    """A list or a mapping out of the values."""

    path: str


@dataclass(frozen=True)
class Named:
    """A text that is worked out from values and the release, such as ``fullname``; see `names`."""

    name: str


@dataclass(frozen=True)
class Number:
    """The same as a number, such as ``pagePort``."""

    name: str


@dataclass(frozen=True)
class Shared:
    """A tree that stands in several places; it has a name in the chart."""

    name: str
    tree: Tree

    def __hash__(self) -> int:
        return hash(self.name)


class Text:
    """A text with gaps: ``Text("{}-config", Named("fullname"))``."""

    def __init__(self, pattern: str, *parts: "Value | Named") -> None:
        self.pattern = pattern
        self.parts = parts


@dataclass(frozen=True)
class When:
    """A tree that is there only under a condition, with another in its place or none."""

    condition: Condition
    then: Tree
    otherwise: Tree = None


@dataclass(frozen=True)
class Spread:
    """As a key of a dict or an item of a list: what a value holds, among the others."""

    path: str


@dataclass(frozen=True)
class Merged:
    """Mappings laid over each other, key by key; the last one wins."""

    layers: Sequence["Shared | Block"]


@dataclass(frozen=True)
class AsText:
    """A tree written as YAML, for a file in a ConfigMap."""

    tree: "Merged | Mapping[str, Tree]"


@dataclass(frozen=True)
class Digest:
    """A hash of everything that pods read when they start: they are replaced when it changes."""

    trees: tuple[Tree, ...]
    templates: tuple[str, ...]
    """The files of the chart that these trees are in."""
