"""The load of a node table: the pods on its nodes and their requests."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from bayplan.kube.pod import Pod
from bayplan.snapshot.tally import PodTable

NO_REQUESTS: Mapping[str, int] = MappingProxyType({"pods": 0})


class PodsUnknown(LookupError):
    """A policy needs pods, but only nodes are known."""

    def __init__(self, wanted: str) -> None:
        super().__init__(
            f"{wanted} needs the placed pods, and the nodes of a request come without them, as do those of"
            " cluster.nodesOnly: start with --kubeconfig, --in-cluster or --snapshot, and without nodesOnly"
        )


class Load:
    """The pods on each node, the sum of their requests by resource, and the tally of all pods."""

    __slots__ = ("_tally", "before", "domains_read", "pods", "requests")

    def __init__(
        self,
        requests: Sequence[Mapping[str, int]],
        pods: Sequence[tuple[Pod, ...]],
        tally: PodTable | None = None,
        *,
        before: PodTable | None = None,
    ) -> None:
        self.requests = requests
        self.pods = pods
        self._tally = tally
        self.before = before
        """In a snapshot of cases (`Snapshot.cases`): the counts of the unchanged cluster."""
        self.domains_read = False
        """Whether a policy counted over a domain or all nodes, so that its verdict depends on other nodes."""

    @property
    def tally(self) -> PodTable:
        """The counts of pods by kind and row; computed on first use if not given."""
        if self._tally is None:
            self._tally = PodTable.of(self.pods)
        return self._tally
