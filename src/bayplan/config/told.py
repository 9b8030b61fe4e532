"""What leaves the cluster about a pod, when a service is asked about it."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from bayplan.kube.pod import Pod

_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def told(pod: Pod, annotations: Sequence[str] = ()) -> dict[str, Any]:
    """What a service learns of a pod: who it is and what it wants; nothing of its containers.

    Of its annotations those that are named, with ``*`` and ``?``: anything may stand in the others.
    """
    sent = {key: value for key, value in pod.annotations.items() if _is_named(key, annotations)}
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "labels": dict(pod.labels),
        "annotations": sent,
        "requests": dict(pod.requests),
        "priority": pod.priority,
    }


def _is_named(key: str, names: Sequence[str]) -> bool:
    # The whole pod, with what its containers are told: nobody means that with a pattern.
    if key == _APPLIED:
        return key in names
    return any(fnmatchcase(key, name) for name in names)
