"""At which points of a profile a plugin of kube-scheduler may be enabled, in any version from 1.25 on.

A point counts when one version has it: ``preFilter`` of TaintToleration came after 1.36.
"""

from bayplan.doctor.schema import POINTS

_YOUNG = ("placementGenerate", "placementScore")
_BEFORE = ("preFilter", "filter")
_SCORES = ("preScore", "score")

POINTS_OF: dict[str, tuple[str, ...]] = {
    "DefaultBinder": ("bind",),
    "DefaultPreemption": ("preEnqueue", "postFilter"),
    "DynamicResources": (
        "preEnqueue",
        *_BEFORE,
        "postFilter",
        *_SCORES,
        "reserve",
        "preBind",
        "postBind",
    ),
    "ImageLocality": ("score",),
    "InterPodAffinity": (*_BEFORE, *_SCORES),
    "NodeAffinity": (*_BEFORE, *_SCORES),
    "NodeName": _BEFORE,
    "NodePorts": _BEFORE,
    "NodeResourcesBalancedAllocation": _SCORES,
    "NodeResourcesFit": (*_BEFORE, *_SCORES),
    "NodeUnschedulable": _BEFORE,
    "NodeVolumeLimits": _BEFORE,
    "PodTopologySpread": (*_BEFORE, *_SCORES),
    "PrioritySort": ("queueSort",),
    "SchedulingGates": ("preEnqueue",),
    "TaintToleration": (*_BEFORE, *_SCORES),
    "VolumeBinding": (*_BEFORE, *_SCORES, "reserve", "preBind"),
    "VolumeRestrictions": _BEFORE,
    "VolumeZone": _BEFORE,
}
"""Those that have come since, for groups of pods, are left out: their points still change."""
LASTING = tuple(point for point in POINTS if point not in ("multiPoint", *_YOUNG))
"""The points that this is known of."""
