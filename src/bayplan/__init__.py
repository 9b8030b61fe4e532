"""Bayplan: Kubernetes scheduling policy, in Python."""

from bayplan.kube.pod import Pod
from bayplan.kube.taint import Taint, Toleration
from bayplan.policy.args import Args
from bayplan.policy.hooks import PolicyError, filter, policy, prefer, prepare, protect, score
from bayplan.policy.verdict import Reason, Score, Verdict
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.columns import Label, NodeAnnotation
from bayplan.snapshot.strings import Strings
from bayplan.snapshot.table import Node, NodeTable

__all__ = [
    "Args",
    "Label",
    "Node",
    "NodeAnnotation",
    "NodeTable",
    "Pod",
    "PolicyError",
    "Reason",
    "Score",
    "Snapshot",
    "Strings",
    "Taint",
    "Toleration",
    "Verdict",
    "filter",
    "policy",
    "prefer",
    "prepare",
    "protect",
    "score",
]
