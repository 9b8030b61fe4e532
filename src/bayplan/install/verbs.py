"""Which verbs kube-scheduler must call for the policies to have their say.

A verb that no hook answers costs a request a pod; ``filterVerb`` without ``preemptVerb`` evicts pods for
nodes that are then refused.
"""

from collections.abc import Sequence

from bayplan.authoring.registry import Policy
from bayplan.engine.commit import commits
from bayplan.install.values import Verbs

_FILTERING = ("filter", "prefer")
_EVICTING = ("protect", "victims")


def verbs_of(policies: Sequence[Policy]) -> Verbs:
    """The verbs for these policies."""
    kinds = {hook.spec.kind for policy in policies for hook in policy.hooks}
    filters = not kinds.isdisjoint(_FILTERING)
    return Verbs(
        filter=filters,
        prioritize="score" in kinds,
        preempt=filters or not kinds.isdisjoint(_EVICTING),
        bind=commits(policies),
    )
