"""Bayplan: Kubernetes scheduling policy, in Python.

The names below are the whole public API, beside `bayplan.blocks` and `bayplan.testing`. They are imported on
first use, so that ``bayplan --help`` does not wait for NumPy.
"""

import difflib
import importlib
from typing import TYPE_CHECKING, Any

from bayplan.version import VERSION

if TYPE_CHECKING:
    from bayplan.authoring.args import Args as Args
    from bayplan.authoring.gang import Gang as Gang
    from bayplan.authoring.gang import gang as gang
    from bayplan.authoring.hooks import PolicyError as PolicyError
    from bayplan.authoring.hooks import allocate as allocate
    from bayplan.authoring.hooks import filter as filter
    from bayplan.authoring.hooks import policy as policy
    from bayplan.authoring.hooks import prefer as prefer
    from bayplan.authoring.hooks import prepare as prepare
    from bayplan.authoring.hooks import protect as protect
    from bayplan.authoring.hooks import score as score
    from bayplan.authoring.hooks import victims as victims
    from bayplan.authoring.queue_hooks import bound as bound
    from bayplan.authoring.queue_hooks import gate as gate
    from bayplan.authoring.queue_hooks import order as order
    from bayplan.authoring.source import source as source
    from bayplan.authoring.verdict import Reason as Reason
    from bayplan.authoring.verdict import Score as Score
    from bayplan.authoring.verdict import Verdict as Verdict
    from bayplan.config.profile import Profile as Profile
    from bayplan.kube.pod import Pod as Pod
    from bayplan.kube.taint import Taint as Taint
    from bayplan.kube.taint import Toleration as Toleration
    from bayplan.snapshot.cluster import Snapshot as Snapshot
    from bayplan.snapshot.columns import Label as Label
    from bayplan.snapshot.columns import NodeAnnotation as NodeAnnotation
    from bayplan.snapshot.conditions import PodLabel as PodLabel
    from bayplan.snapshot.conditions import in_namespace as in_namespace
    from bayplan.snapshot.conditions import same_owner as same_owner
    from bayplan.snapshot.conditions import selected_by as selected_by
    from bayplan.snapshot.row import Node as Node
    from bayplan.snapshot.sources import Source as Source
    from bayplan.snapshot.strings import Strings as Strings
    from bayplan.snapshot.table import NodeTable as NodeTable
    from bayplan.snapshot.units import Allocation as Allocation
    from bayplan.snapshot.units import Units as Units

_HOMES = {
    "Allocation": "bayplan.snapshot.units",
    "Args": "bayplan.authoring.args",
    "Gang": "bayplan.authoring.gang",
    "Label": "bayplan.snapshot.columns",
    "Node": "bayplan.snapshot.row",
    "NodeAnnotation": "bayplan.snapshot.columns",
    "NodeTable": "bayplan.snapshot.table",
    "Pod": "bayplan.kube.pod",
    "PodLabel": "bayplan.snapshot.conditions",
    "PolicyError": "bayplan.authoring.hooks",
    "Profile": "bayplan.config.profile",
    "Reason": "bayplan.authoring.verdict",
    "Score": "bayplan.authoring.verdict",
    "Snapshot": "bayplan.snapshot.cluster",
    "Source": "bayplan.snapshot.sources",
    "Strings": "bayplan.snapshot.strings",
    "Taint": "bayplan.kube.taint",
    "Toleration": "bayplan.kube.taint",
    "Units": "bayplan.snapshot.units",
    "Verdict": "bayplan.authoring.verdict",
    "allocate": "bayplan.authoring.hooks",
    "bound": "bayplan.authoring.queue_hooks",
    "filter": "bayplan.authoring.hooks",
    "gang": "bayplan.authoring.gang",
    "gate": "bayplan.authoring.queue_hooks",
    "in_namespace": "bayplan.snapshot.conditions",
    "order": "bayplan.authoring.queue_hooks",
    "policy": "bayplan.authoring.hooks",
    "prefer": "bayplan.authoring.hooks",
    "prepare": "bayplan.authoring.hooks",
    "protect": "bayplan.authoring.hooks",
    "same_owner": "bayplan.snapshot.conditions",
    "score": "bayplan.authoring.hooks",
    "source": "bayplan.authoring.source",
    "selected_by": "bayplan.snapshot.conditions",
    "victims": "bayplan.authoring.hooks",
}

# What others call it: kube-scheduler's verbs, and its words of old.
_ELSEWHERE = {
    "prioritize": "score",
    "priority": "score",
    "predicate": "filter",
    "preempt": "victims",
    "bind": "bound",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605
__version__ = VERSION


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        close = [] if name.startswith("_") else difflib.get_close_matches(name, __all__, n=1)
        close = [_ELSEWHERE[name]] if name in _ELSEWHERE else close
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise AttributeError(f"module 'bayplan' has no attribute {name!r}{hint}", name=name)
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
