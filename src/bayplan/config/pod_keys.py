"""Labels and annotations that expressions read, if the pods at hand have a nearly equal key instead."""

from collections.abc import Sequence

from bayplan.authoring.registry import PodKey, Policy
from bayplan.authoring.typo import mistyped
from bayplan.kube.pod import Pod

# One letter of four may be wrong: this is a hint, and nothing is refused.
_ALIKE = 0.75


def pod_key_hints(policies: Sequence[Policy], pods: Sequence[Pod]) -> list[str]:
    """A hint for each key that is probably mistyped.

    A key that no pod has is no mistake by itself: rules for a few pods are common.
    """
    there = {
        "labels": {key for pod in pods for key in pod.labels},
        "annotations": {key for pod in pods for key in pod.annotations},
    }
    readers: dict[PodKey, str] = {}
    for policy in policies:
        for pod_key in policy.pod_keys:
            readers.setdefault(pod_key, policy.name)
    return [
        f"policy {name!r} reads {where.removesuffix('s')} {key!r} of the pod: no pod of {len(pods)} has it;"
        f" did you mean {meant!r}?"
        for (where, key), name in readers.items()
        if (meant := mistyped(key, sorted(there[where]), alike=_ALIKE)) is not None
    ]
