"""Taints as a column: nodes with the same taints are one case, however many they are."""

from dataclasses import dataclass

import msgspec

from bayplan.kube.node import NodeObject
from bayplan.kube.taint import Taint
from bayplan.snapshot.columns import Values
from bayplan.snapshot.strings import Strings

_TAINTS = msgspec.json.Decoder(tuple[Taint, ...])


@dataclass(frozen=True)
class TaintSets:
    """The taints of each node as one text; ``decoded`` gives them back."""

    @property
    def title(self) -> str:
        """How errors and ``bayplan columns`` call it."""
        return "taints"

    @property
    def meaning(self) -> str:
        """One line for ``bayplan columns``."""
        return "taints of the node, all of them as one text"

    def read(self, nodes: list[NodeObject]) -> Values:
        """One text a node; absent where it has no taints."""
        return Strings.intern(
            msgspec.json.encode(node.taints).decode() if node.taints else None for node in nodes
        )

    @staticmethod
    def decoded(text: str) -> tuple[Taint, ...]:
        """The taints behind a text of the column."""
        return _TAINTS.decode(text)


TAINTS = TaintSets()
