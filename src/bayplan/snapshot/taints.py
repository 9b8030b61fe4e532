"""Taints as a text column, so that a toleration is checked once per distinct set of taints."""

from dataclasses import dataclass

import msgspec

from bayplan.kube.node import NodeObject
from bayplan.kube.taint import Taint
from bayplan.snapshot.columns import Values
from bayplan.snapshot.strings import Strings

_TAINTS = msgspec.json.Decoder(tuple[Taint, ...])


@dataclass(frozen=True)
class TaintSets:
    """The column of each node's taints, encoded as one text; ``decoded`` reads it back."""

    @property
    def title(self) -> str:
        """Its name in errors and in ``bayplan columns``."""
        return "taints"

    @property
    def meaning(self) -> str:
        """One line for ``bayplan columns``."""
        return "taints of the node, all of them as one text"

    def read(self, nodes: list[NodeObject]) -> Values:
        """One text per node; absent for a node without taints."""
        return Strings.intern(
            msgspec.json.encode(node.taints).decode() if node.taints else None for node in nodes
        )

    @staticmethod
    def decoded(text: str) -> tuple[Taint, ...]:
        """The taints in a text of the column."""
        return _TAINTS.decode(text)


TAINTS = TaintSets()
