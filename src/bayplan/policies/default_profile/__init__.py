"""kube-scheduler's default profile as policies over columns: same names, same judgement, same words.

A file each. The order is that in which kube-scheduler asks its plugins: a node that several refuse is told
the reason of the first.
"""

_HERE = "bayplan.policies.default_profile"

DEFAULT_PROFILE = {
    "SchedulingGates": f"{_HERE}.scheduling_gates",
    "NodeUnschedulable": f"{_HERE}.node_unschedulable",
    "NodeName": f"{_HERE}.node_name",
    "TaintToleration": f"{_HERE}.taint_toleration",
    "NodeAffinity": f"{_HERE}.node_affinity",
    "NodePorts": f"{_HERE}.node_ports",
    "NodeResourcesFit": f"{_HERE}.node_resources_fit",
    "VolumeRestrictions": f"{_HERE}.volume_restrictions",
    "NodeVolumeLimits": f"{_HERE}.node_volume_limits",
    "VolumeBinding": f"{_HERE}.volume_binding",
    "VolumeZone": f"{_HERE}.volume_zone",
    "PodTopologySpread": f"{_HERE}.pod_topology_spread",
    "InterPodAffinity": f"{_HERE}.inter_pod_affinity",
    "DynamicResources": f"{_HERE}.dynamic_resources",
    "NodeResourcesBalancedAllocation": f"{_HERE}.node_resources_balanced_allocation",
    "ImageLocality": f"{_HERE}.image_locality",
    "NodeDeclaredFeatures": f"{_HERE}.node_declared_features",
}
WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
}
"""Weights of the scores that do not count once."""
ELSEWHERE = (
    "PrioritySort",
    "DefaultPreemption",
    "DefaultBinder",
    "GangScheduling",
    "TopologyPlacementGenerator",
    "PodGroupPodsCount",
)
"""Plugins that do not judge nodes for a pod: they order, evict and bind, or their feature is off."""
ABOUT_OTHER_OBJECTS = (
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "ImageLocality",
)
"""Policies that say nothing true without claims, volumes or images: an extender watches none of them."""
