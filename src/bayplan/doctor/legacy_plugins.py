"""What became of predicates and priorities: the plugins that do the same, or why there is none."""

PREDICATES: dict[str, tuple[str, ...]] = {
    "CheckNodeCondition": ("TaintToleration",),
    "CheckNodeDiskPressure": ("TaintToleration",),
    "CheckNodeMemoryPressure": ("TaintToleration",),
    "CheckNodePIDPressure": ("TaintToleration",),
    "CheckNodeUnschedulable": ("NodeUnschedulable",),
    "CheckVolumeBinding": ("VolumeBinding",),
    "EvenPodsSpread": ("PodTopologySpread",),
    "GeneralPredicates": ("NodeResourcesFit", "NodeName", "NodePorts", "NodeAffinity"),
    "HostName": ("NodeName",),
    "MatchInterPodAffinity": ("InterPodAffinity",),
    "MatchNodeSelector": ("NodeAffinity",),
    "MaxAzureDiskVolumeCount": ("NodeVolumeLimits",),
    "MaxCSIVolumeCountPred": ("NodeVolumeLimits",),
    "MaxCinderVolumeCount": ("NodeVolumeLimits",),
    "MaxEBSVolumeCount": ("NodeVolumeLimits",),
    "MaxGCEPDVolumeCount": ("NodeVolumeLimits",),
    "NoDiskConflict": ("VolumeRestrictions",),
    "NoVolumeZoneConflict": ("VolumeZone",),
    "PodFitsHost": ("NodeName",),
    "PodFitsHostPorts": ("NodePorts",),
    "PodFitsPorts": ("NodePorts",),
    "PodFitsResources": ("NodeResourcesFit",),
    "PodToleratesNodeNoExecuteTaints": ("TaintToleration",),
    "PodToleratesNodeTaints": ("TaintToleration",),
}
ALWAYS = ("NodeUnschedulable", "TaintToleration")
"""Predicates that were on whether a Policy named them or not."""

PRIORITIES: dict[str, str] = {
    "BalancedResourceAllocation": "NodeResourcesBalancedAllocation",
    "EvenPodsSpreadPriority": "PodTopologySpread",
    "ImageLocalityPriority": "ImageLocality",
    "InterPodAffinityPriority": "InterPodAffinity",
    "LeastRequestedPriority": "NodeResourcesFit",
    "MostRequestedPriority": "NodeResourcesFit",
    "NodeAffinityPriority": "NodeAffinity",
    "RequestedToCapacityRatioPriority": "NodeResourcesFit",
    "SelectorSpreadPriority": "PodTopologySpread",
    "ServiceSpreadingPriority": "PodTopologySpread",
    "TaintTolerationPriority": "TaintToleration",
}
STRATEGIES: dict[str, str] = {
    "LeastRequestedPriority": "LeastAllocated",
    "MostRequestedPriority": "MostAllocated",
}

WITHOUT_SUCCESSOR: dict[str, str] = {
    "CheckNodeLabelPresence": "ask for labels with node affinity",
    "CheckServiceAffinity": "keep pods together with inter-pod affinity",
    "EqualPriority": "it gave every node the same, so that nothing is lost",
    "NodeLabelPriority": "prefer labels with node affinity",
    "NodePreferAvoidPodsPriority": "taint the nodes with the effect PreferNoSchedule",
    "RequestedToCapacityRatioPriority": "write it as scoringStrategy of NodeResourcesFit, with its shape",
    "ServiceAntiAffinity": "spread pods with topology spread constraints",
}
