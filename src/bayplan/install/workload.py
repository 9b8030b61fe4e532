"""The Deployment, or the DaemonSet of the control plane, and the pods they make.

Our own pods are placed by the default scheduler, whatever they serve: a scheduler that waits for its extender
cannot place it.
"""

from bayplan.install.configuration import CONFIG_MAP, SCHEDULER_CONFIG_MAP
from bayplan.install.container import BAYPLAN, KUBE_SCHEDULER
from bayplan.install.labels import SELECTOR, metadata, suffixed
from bayplan.install.shapes import CONTROL_PLANE, LEASED, MUTUAL_TLS, SIDECAR
from bayplan.install.tree import (
    All,
    Block,
    Digest,
    Given,
    InNamespace,
    Named,
    Not,
    Shared,
    Spread,
    Tree,
    Value,
    When,
)
from bayplan.install.versions import MATCH_LABEL_KEYS, NATIVE_SIDECARS

TMP_MEBIBYTES = 64
"""Of ``/tmp``; the kubelet ends a pod that writes more there."""


def _spread_over(topology: str) -> Tree:
    return {
        "maxSkew": 1,
        "topologyKey": topology,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": SELECTOR},
        "matchLabelKeys": When(MATCH_LABEL_KEYS, ["pod-template-hash"]),
    }


POD_TEMPLATE = Shared(
    "podTemplate",
    {
        "metadata": {
            "labels": {
                "app.kubernetes.io/name": Named("name"),
                "app.kubernetes.io/instance": Named("instance"),
                Spread("podLabels"): None,
            },
            "annotations": {
                "checksum/config": Digest(
                    (CONFIG_MAP, When(SIDECAR, SCHEDULER_CONFIG_MAP)), ("configmap.yaml",)
                ),
                Spread("podAnnotations"): None,
            },
        },
        "spec": {
            "schedulerName": "default-scheduler",
            "serviceAccountName": Named("serviceAccountName"),
            # What Services there are is nobody's business here, and ours would be called BAYPLAN_PORT.
            "enableServiceLinks": False,
            "imagePullSecrets": When(Given("imagePullSecrets"), Block("imagePullSecrets")),
            "priorityClassName": When(
                Given("priorityClassName"),
                Value("priorityClassName"),
                When(InNamespace("kube-system"), "system-cluster-critical", Named("clusterName")),
            ),
            "hostNetwork": When(CONTROL_PLANE, True),
            "dnsPolicy": When(CONTROL_PLANE, "ClusterFirstWithHostNet"),
            "securityContext": Block("podSecurityContext"),
            "terminationGracePeriodSeconds": Value("terminationGracePeriodSeconds"),
            "initContainers": When(All(SIDECAR, NATIVE_SIDECARS), [BAYPLAN]),
            "containers": [
                When(SIDECAR, KUBE_SCHEDULER),
                When(Not(All(SIDECAR, NATIVE_SIDECARS)), BAYPLAN),
            ],
            "volumes": [
                {"name": "config", "configMap": {"name": suffixed("config")}},
                {"name": "tmp", "emptyDir": {"sizeLimit": f"{TMP_MEBIBYTES}Mi"}},
                When(
                    SIDECAR,
                    {"name": "scheduler-config", "configMap": {"name": suffixed("scheduler-config")}},
                ),
                When(
                    MUTUAL_TLS,
                    {"name": "tls", "secret": {"secretName": Named("serverSecret"), "defaultMode": 0o440}},
                ),
                Spread("extraVolumes"),
            ],
            "nodeSelector": When(
                CONTROL_PLANE,
                {"node-role.kubernetes.io/control-plane": "", Spread("nodeSelector"): None},
                When(Given("nodeSelector"), Block("nodeSelector")),
            ),
            "tolerations": When(
                CONTROL_PLANE,
                [
                    {
                        "key": "node-role.kubernetes.io/control-plane",
                        "operator": "Exists",
                        "effect": "NoSchedule",
                    },
                    Spread("tolerations"),
                ],
                When(Given("tolerations"), Block("tolerations")),
            ),
            "affinity": When(Given("affinity"), Block("affinity")),
            "topologySpreadConstraints": When(
                Not(CONTROL_PLANE),
                [_spread_over("kubernetes.io/hostname"), _spread_over("topology.kubernetes.io/zone")],
            ),
        },
    },
)

WORKLOAD: Tree = {
    "apiVersion": "apps/v1",
    "kind": When(CONTROL_PLANE, "DaemonSet", "Deployment"),
    "metadata": metadata(),
    "spec": {
        "replicas": When(Not(CONTROL_PLANE), Value("replicaCount")),
        "revisionHistoryLimit": 5,
        "selector": {"matchLabels": SELECTOR},
        # A pod that waits for a Lease is not ready before the holder is told to end: a rollout that kept one
        # pod ready would wait for ever. The holder goes on for a while after it is told to end.
        "strategy": When(
            Not(CONTROL_PLANE),
            {
                "type": "RollingUpdate",
                "rollingUpdate": {
                    "maxSurge": When(LEASED, "100%", 1),
                    "maxUnavailable": When(LEASED, "100%", 0),
                },
            },
        ),
        "updateStrategy": When(
            CONTROL_PLANE, {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}
        ),
        "template": POD_TEMPLATE,
    },
}
