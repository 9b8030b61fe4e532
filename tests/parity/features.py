"""What a case has of the default profile, found by looking at it: the generator has no say in what counts."""

from __future__ import annotations

from collections.abc import Mapping

from tests.parity.draw import GPU, HUGE, ZONE
from tests.parity.parts import (
    FAR,
    NEAR,
    PREFERRED_NODE,
    REQUIRED_NODE,
    Test,
    affinity,
    between,
    claim_named,
    claimed,
    claims,
    drivers,
    found,
    has,
    nodes,
    placed_terms,
    pods,
    requests,
    selector,
    services_select,
    spec,
    spread,
    volumes,
)
from tests.parity.places import PREFERRED, REQUIRED
from tests.parity.world import HOLD, Case


def features_of(case: Case) -> list[str]:
    """The names of the features that a case has."""
    return [name for name, test in FEATURES.items() if test(case)]


FEATURES: Mapping[str, Test] = {
    "cluster without nodes": lambda case: not nodes(case),
    "SchedulingGates": has("schedulingGates"),
    "NodeUnschedulable: cordoned node": found(nodes, "unschedulable", True),
    "NodeUnschedulable: tolerated": found(
        lambda case: spec(case).get("tolerations"), "key", "node.kubernetes.io/unschedulable"
    ),
    "TaintToleration: NoSchedule": found(nodes, "effect", "NoSchedule"),
    "TaintToleration: NoExecute": found(nodes, "effect", "NoExecute"),
    "TaintToleration: PreferNoSchedule": found(nodes, "effect", "PreferNoSchedule"),
    "TaintToleration: Equal": found(lambda case: spec(case).get("tolerations"), "operator", "Equal"),
    "TaintToleration: everything tolerated": lambda case: (
        {"operator": "Exists"} in spec(case).get("tolerations", [])
    ),
    "NodeAffinity: nodeSelector": has("nodeSelector"),
    **{
        f"NodeAffinity: required {operator}": found(REQUIRED_NODE, "operator", operator)
        for operator in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
    },
    "NodeAffinity: required matchFields": found(REQUIRED_NODE, "matchFields"),
    "NodeAffinity: required empty term": lambda case: (
        {} in (REQUIRED_NODE(case) or {}).get("nodeSelectorTerms", [])
    ),
    "NodeAffinity: preferred": PREFERRED_NODE,
    "NodeAffinity: preferred matchFields": found(PREFERRED_NODE, "matchFields"),
    "NodeDeclaredFeatures": found(spec, "restartPolicyRules"),
    "NodePorts": found(spec, "hostPort"),
    "NodePorts: hostIP": found(spec, "hostIP"),
    "NodePorts: UDP": found(spec, "protocol", "UDP"),
    "NodePorts: hostNetwork": has("hostNetwork"),
    "NodePorts: of a sidecar": found(lambda case: spec(case).get("initContainers"), "hostPort"),
    "NodePorts: taken by placed pods": found(pods, "hostPort"),
    "NodeResourcesFit: nothing requested": lambda case: (
        not any(
            one["resources"].get("requests") or one["resources"].get("limits")
            for one in spec(case)["containers"]
        )
    ),
    "NodeResourcesFit: exact fit": lambda case: spec(case)["containers"][0]["name"] == "exact",
    "NodeResourcesFit: fraction, 0.1": requests("cpu", "0.1"),
    "NodeResourcesFit: exponent, 1e3": requests("memory", "1e3"),
    "NodeResourcesFit: decimal, 129M": requests("memory", "129M"),
    "NodeResourcesFit: zero requested": requests("cpu", "0"),
    "NodeResourcesFit: ephemeral storage": requests("ephemeral-storage"),
    "NodeResourcesFit: extended resource": requests(GPU),
    "NodeResourcesFit: huge pages": requests(HUGE),
    "NodeResourcesFit: init containers": lambda case: any(
        "restartPolicy" not in one for one in spec(case).get("initContainers", [])
    ),
    "NodeResourcesFit: sidecars": found(
        lambda case: spec(case).get("initContainers"), "restartPolicy", "Always"
    ),
    "NodeResourcesFit: overhead": has("runtimeClassName"),
    "NodeResourcesFit: pod-level requests": has("resources"),
    "NodeResourcesFit: pod-level limits": found(lambda case: spec(case).get("resources"), "limits"),
    "NodeResourcesFit: pod-level huge pages": found(lambda case: spec(case).get("resources"), HUGE),
    "NodeResourcesFit: node with zero capacity": lambda case: any(
        "0" in (one["status"]["allocatable"].get(key) for key in ("cpu", "memory", "pods"))
        for one in nodes(case)
    ),
    "NodeResourcesFit: node that does not say": lambda case: any(
        {"cpu", "memory"} - one["status"]["allocatable"].keys() for one in nodes(case)
    ),
    "NodeResourcesFit: number of pods": lambda case: any(
        one["status"]["allocatable"]["pods"] in ("1", "3") for one in nodes(case)
    ),
    "NodeResourcesFit: placed pod, being resized": found(pods, "containerStatuses"),
    "NodeResourcesFit: sidecar, being resized": found(pods, "initContainerStatuses"),
    "NodeResourcesFit: pod-level requests, being resized": lambda case: any(
        "resources" in one.get("status", {}) for one in pods(case)
    ),
    "NodeResourcesFit: placed pod that cannot be resized": found(pods, "reason", "Infeasible"),
    "placed pod, terminating": lambda case: any(
        HOLD in one["metadata"].get("finalizers", ()) for one in pods(case)
    ),
    "placed pod, ended": found(pods, "phase", "Succeeded", "Failed"),
    "VolumeRestrictions: disks by name": lambda case: any(
        {"gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd"} & one.keys() for one in volumes(case)
    ),
    "VolumeRestrictions: ReadWriteOncePod": lambda case: any(
        one["spec"]["accessModes"] == ["ReadWriteOncePod"] for one in claims(case)
    ),
    "NodeVolumeLimits: driver with a limit": lambda case: (
        found(claimed, "driver")(case) and found(drivers, "count")(case)
    ),
    "NodeVolumeLimits: built-in disk that a driver serves": lambda case: (
        any({"gcePersistentDisk", "awsElasticBlockStore"} & one.keys() for one in volumes(case))
        and "migrated-plugins" in str(drivers(case))
    ),
    "NodeVolumeLimits: volume of the pod alone": found(volumes, "csi"),
    "NodeVolumeLimits: attached elsewhere": lambda case: (
        claimed(case) and any(case.world.of_kind("VolumeAttachment"))
    ),
    "VolumeBinding: bound claim": claim_named("bound"),
    "VolumeBinding: bound, node affinity": found(claimed, "nodeAffinity"),
    "VolumeBinding: waits for first consumer": claim_named("waits"),
    "VolumeBinding: static volumes": found(claims, "storageClassName", "wait-static"),
    "VolumeBinding: node selected before": found(claims, "volume.kubernetes.io/selected-node"),
    "VolumeBinding: attributes class": found(claims, "volumeAttributesClassName"),
    "VolumeBinding: selector of a claim": found(claims, "selector"),
    "VolumeBinding: volume reserved for a claim": lambda case: (
        claims(case)
        and any(
            "claimRef" in one["spec"] and one["metadata"]["name"].startswith("free")
            for one in case.world.of_kind("PersistentVolume")
        )
    ),
    "VolumeBinding: provisioned": found(claims, "storageClassName", "wait-dynamic"),
    "VolumeBinding: allowed topologies": found(claims, "storageClassName", "wait-zoned"),
    "VolumeBinding: storage capacity": lambda case: (
        found(claims, "storageClassName", "wait-dynamic")(case)
        and any(one["spec"]["storageCapacity"] for one in case.world.of_kind("CSIDriver"))
    ),
    "VolumeBinding: immediate, not bound": claim_named("at-once"),
    "VolumeBinding: claim missing": found(volumes, "claimName", "nowhere"),
    "VolumeBinding: claim lost or leaving": claim_named("lost", "going"),
    "VolumeBinding: class missing": claim_named("no-class"),
    "VolumeBinding: ephemeral": found(volumes, "ephemeral"),
    "VolumeZone: labelled volume": lambda case: any(
        ZONE in one["metadata"]["labels"] for one in claimed(case)
    ),
    "PodTopologySpread: DoNotSchedule": found(spread, "whenUnsatisfiable", "DoNotSchedule"),
    "PodTopologySpread: ScheduleAnyway": found(spread, "whenUnsatisfiable", "ScheduleAnyway"),
    "PodTopologySpread: several": lambda case: len(spread(case)) > 1,
    "PodTopologySpread: minDomains": found(spread, "minDomains"),
    "PodTopologySpread: nodeAffinityPolicy": found(spread, "nodeAffinityPolicy"),
    "PodTopologySpread: nodeTaintsPolicy": found(spread, "nodeTaintsPolicy"),
    "PodTopologySpread: matchLabelKeys": found(spread, "matchLabelKeys"),
    "PodTopologySpread: empty selector": selector(spread, {}),
    "PodTopologySpread: no selector": selector(spread, None),
    "PodTopologySpread: default, by Service": services_select,
    "PodTopologySpread: default, by controller": lambda case: (
        not spread(case) and case.pod["metadata"].get("ownerReferences")
    ),
    "InterPodAffinity: required": NEAR,
    "InterPodAffinity: required anti": FAR,
    "InterPodAffinity: preferred": affinity("podAffinity", PREFERRED),
    "InterPodAffinity: preferred anti": affinity("podAntiAffinity", PREFERRED),
    "InterPodAffinity: namespaces": found(between, "namespaces"),
    "InterPodAffinity: namespaceSelector": found(between, "namespaceSelector"),
    "InterPodAffinity: matchLabelKeys": found(between, "matchLabelKeys"),
    "InterPodAffinity: mismatchLabelKeys": found(between, "mismatchLabelKeys"),
    "InterPodAffinity: empty selector": found(between, "labelSelector", {}),
    "InterPodAffinity: no selector": selector(lambda case: [*(NEAR(case) or ()), *(FAR(case) or ())], None),
    "InterPodAffinity: required by placed pods": placed_terms("podAffinity", REQUIRED),
    "InterPodAffinity: anti of placed pods": placed_terms("podAntiAffinity", REQUIRED),
    "InterPodAffinity: preferred by placed pods": lambda case: (
        placed_terms("podAffinity", PREFERRED)(case) or placed_terms("podAntiAffinity", PREFERRED)(case)
    ),
    "ImageLocality: image on a node": lambda case: any(
        one["image"] in str([node["status"]["images"] for node in nodes(case)])
        for one in spec(case)["containers"]
    ),
    "ImageLocality: image as a volume": found(volumes, "reference"),
    "default preemption policy": lambda case: "priorityClassName" not in spec(case),
}
"""Each feature, and how a case is seen to have it."""
