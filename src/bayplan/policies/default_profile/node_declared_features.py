"""NodeDeclaredFeatures: a pod that needs something new of a kubelet goes where the kubelet declares it.

Filter   rejects nodes whose ``status.declaredFeatures`` lack one that the pod needs.
Reads    rules that restart all containers, and users of the pod's own on the node's network.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bayplan
from bayplan import NodeTable, Pod, Reason, Verdict

LACKING = Reason("node(s) didn't match Pod's required features", helped_by=frozenset({"nodes"}))

_RESTART_ALL = "RestartAllContainersOnContainerExits"
_USERS_ON_HOST_NETWORK = "UserNamespacesHostNetworkSupport"


@dataclass(frozen=True)
class Declares:
    """Whether a node declares one feature."""

    feature: str

    @property
    def title(self) -> str:
        """How errors call it."""
        return f"Declares({self.feature!r})"

    @property
    def meaning(self) -> str:
        """What it is, in a line."""
        return f"whether the node declares {self.feature}"

    def read(self, nodes: list[Any]) -> NDArray[np.bool_]:
        """One bool a node."""
        return np.array([self.feature in node.declared_features for node in nodes], dtype=np.bool_)


@bayplan.policy
class NodeDeclaredFeatures:
    """A pod that needs something new of a kubelet goes where the kubelet says that it has it."""

    @bayplan.filter(reads="node")
    def declared(self, pod: Pod, nodes: NodeTable) -> Verdict | None:
        """Refuse nodes that do not declare what the pod needs."""
        needed = list(_needed(pod))
        if not needed:
            return None
        return LACKING.where(~np.logical_and.reduce([nodes[Declares(feature)] for feature in needed]))


def _needed(pod: Pod) -> Iterator[str]:
    rules = (
        rule for each in (*pod.containers, *pod.init_containers) for rule in each.restart_policy_rules or ()
    )
    if any(rule.action == "RestartAllContainers" for rule in rules):
        yield _RESTART_ALL
    if pod.host_network and pod.own_users:
        yield _USERS_ON_HOST_NETWORK
