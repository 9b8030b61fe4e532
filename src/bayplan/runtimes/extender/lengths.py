"""Finds texts of a pod that are too long to be remembered.

What pods are known by is remembered of thousands: who was refused, who is nudged, who got a shorter answer.
"""

from bayplan.kube.meta import NO_META
from bayplan.kube.pod import Pod

LONGEST = 253
"""No name is longer, and a UID or a version has a few dozen characters."""


def too_long(pod: Pod) -> str:
    """Which of these texts is longer than `LONGEST`; ``""`` if none is."""
    version = (pod.metadata or NO_META).resource_version or ""
    if max(len(pod.uid), len(pod.name), len(pod.namespace), len(version)) <= LONGEST:
        return ""
    texts = {"UID": pod.uid, "name": pod.name, "namespace": pod.namespace, "resourceVersion": version}
    return next(what for what, text in texts.items() if len(text) > LONGEST)
