"""Domains that a label of nodes makes, as rules between pods use them: zones, hosts, racks."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayplan import Label, NodeTable, Snapshot, Strings

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Topology:
    """The domain of each node by number, -1 where the node lacks the label."""

    everywhere: NDArray[np.int32]
    """Of all nodes of the cluster: pods are counted there."""
    here: NDArray[np.int32]
    """Of the nodes that are asked about."""
    domains: int
    unnamed: int
    """The domain whose value is an empty text; one that no node is in where there is none."""

    @classmethod
    def of(cls, key: str, nodes: NodeTable, cluster: Snapshot) -> "Topology":
        """The domains that the label ``key`` makes; ``nodes`` are rows of the cluster's."""
        everywhere: Strings = cluster.nodes[Label(key)]
        here: Strings = nodes[Label(key)]
        found = int(everywhere.find([""])[0])
        domains = len(everywhere.values)
        return cls(everywhere.codes, here.codes, domains, found if found >= 0 else domains)

    @property
    def inside(self) -> Bools:
        """The nodes that are asked about and have the label."""
        return self.here >= 0

    def with_unnamed(self) -> "Topology":
        """The same with nodes that lack the label in the domain whose value is an empty text."""
        return replace(
            self,
            everywhere=np.where(self.everywhere >= 0, self.everywhere, self.unnamed),
            here=np.where(self.here >= 0, self.here, self.unnamed),
            domains=max(self.domains, self.unnamed + 1),
        )

    def among(self, chosen: Bools) -> int:
        """How many domains these nodes, of those that are asked about, are in; each must be in one."""
        return int(np.count_nonzero(np.bincount(self.here[chosen])))

    def totals(self, per_node: Ints, where: Bools | None = None) -> Ints:
        """The sum over the nodes of each domain, of those ``where`` it is true.

        The last place is nobody's and 0, so that ``totals[here]`` is right for nodes without the label too.
        """
        chosen = self.everywhere >= 0
        if where is not None:
            chosen &= where
        # Sums of counts and weights are far below the whole numbers that a float can hold.
        sums = np.bincount(self.everywhere[chosen], weights=per_node[chosen], minlength=self.domains + 1)
        return sums.astype(np.int64)
