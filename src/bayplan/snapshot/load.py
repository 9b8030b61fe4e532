"""What runs on the nodes of a table."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from bayplan.kube.pod import Pod
from bayplan.snapshot.tally import PodTable

NO_REQUESTS: Mapping[str, int] = MappingProxyType({"pods": 0})


class PodsUnknown(LookupError):
    """Only nodes are known here, so nothing can be said about the pods on them."""

    def __init__(self, wanted: str) -> None:
        super().__init__(
            f"{wanted} needs the placed pods, and the nodes of a request come without them, as do those of"
            " cluster.nodesOnly: start with --kubeconfig, --in-cluster or --snapshot, and without nodesOnly"
        )


class Load:
    """What the pods on each node request, by resource, the pods themselves, and their counts."""

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
        """Where every node is a case of its own: the counts of the cluster as it is."""
        self.domains_read = False
        """Whether somebody counted over a domain or all nodes, and so saw what is on other nodes."""

    @property
    def tally(self) -> PodTable:
        """The pods by kind and node; counted on first use where nobody kept count."""
        if self._tally is None:
            self._tally = PodTable.of(self.pods)
        return self._tally
