"""Bayplan: Kubernetes scheduling policy, in Python.

The names below are the whole public API, beside `bayplan.testing`. They are imported on first use, so
that ``bayplan --help`` does not wait for NumPy.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayplan.kube.pod import Pod as Pod
    from bayplan.kube.taint import Taint as Taint
    from bayplan.kube.taint import Toleration as Toleration
    from bayplan.policy.args import Args as Args
    from bayplan.policy.hooks import PolicyError as PolicyError
    from bayplan.policy.hooks import filter as filter
    from bayplan.policy.hooks import policy as policy
    from bayplan.policy.hooks import prefer as prefer
    from bayplan.policy.hooks import prepare as prepare
    from bayplan.policy.hooks import protect as protect
    from bayplan.policy.hooks import score as score
    from bayplan.policy.verdict import Reason as Reason
    from bayplan.policy.verdict import Score as Score
    from bayplan.policy.verdict import Verdict as Verdict
    from bayplan.snapshot.cluster import Snapshot as Snapshot
    from bayplan.snapshot.columns import Label as Label
    from bayplan.snapshot.columns import NodeAnnotation as NodeAnnotation
    from bayplan.snapshot.strings import Strings as Strings
    from bayplan.snapshot.table import Node as Node
    from bayplan.snapshot.table import NodeTable as NodeTable

_HOMES = {
    "Args": "bayplan.policy.args",
    "Label": "bayplan.snapshot.columns",
    "Node": "bayplan.snapshot.table",
    "NodeAnnotation": "bayplan.snapshot.columns",
    "NodeTable": "bayplan.snapshot.table",
    "Pod": "bayplan.kube.pod",
    "PolicyError": "bayplan.policy.hooks",
    "Reason": "bayplan.policy.verdict",
    "Score": "bayplan.policy.verdict",
    "Snapshot": "bayplan.snapshot.cluster",
    "Strings": "bayplan.snapshot.strings",
    "Taint": "bayplan.kube.taint",
    "Toleration": "bayplan.kube.taint",
    "Verdict": "bayplan.policy.verdict",
    "filter": "bayplan.policy.hooks",
    "policy": "bayplan.policy.hooks",
    "prefer": "bayplan.policy.hooks",
    "prepare": "bayplan.policy.hooks",
    "protect": "bayplan.policy.hooks",
    "score": "bayplan.policy.hooks",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'bayplan' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
