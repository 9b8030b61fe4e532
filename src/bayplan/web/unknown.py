"""Why nothing is known about a pod: it is called otherwise, is somebody else's, or nobody asked about it."""

from bayplan.kube.pod import Pod
from bayplan.kube.yaml import did_you_mean
from bayplan.snapshot.cluster import Snapshot
from bayplan.web.sight import Sight

_NAMESAKES = 3
_NOBODY_ASKED = ": nobody asked, or it was long ago"


def why_unknown(sight: Sight, key: str, cluster: Snapshot | None) -> str:
    """What to say after ``no decision about pod KEY in the journal``."""
    name = key.rpartition("/")[2]
    others = {entry.pod.key for entry in sight.journal.entries() if entry.pod.name == name} - {key}
    if others:
        return f", and about {' and '.join(sorted(others)[:_NAMESAKES])} there is"
    if cluster is None or not cluster.pods_known:
        return _NOBODY_ASKED
    pod = next((pod for pod in cluster.pods if pod.key == key), None)
    if pod is None:
        return ": there is no such pod"
    return _of_extender(pod) if sight.to_wire is not None else _of_scheduler(pod, sight)


def _of_extender(pod: Pod) -> str:
    if pod.node_name:
        return f": it is on {pod.node_name}, and nobody asked here: it was another replica, or long ago"
    return (
        f": it waits for {pod.scheduler_name}, which has not asked here. It may have asked another replica,"
        " its own plugins may refuse every node (`kubectl describe pod` has its words), no policy may be for"
        " the pod, or that scheduler has no such extender"
    )


def _of_scheduler(pod: Pod, sight: Sight) -> str:
    ours = sorted(sight.schedulers())
    if pod.scheduler_name not in ours:
        theirs = f"{', '.join(ours)}{did_you_mean(pod.scheduler_name, ours)}"
        return f": its schedulerName is {pod.scheduler_name}, and this one places pods of {theirs}"
    if pod.node_name:
        return f": it is on {pod.node_name}; it was placed long ago, or by somebody else"
    return ": it was not judged here: not yet, by another replica, or long ago"
