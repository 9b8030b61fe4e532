"""How our pods are reached, and by whom: Services, the NetworkPolicy, and what keeps pods where they are."""

from bayplan.install.labels import LABELS, SELECTOR, cluster_name, metadata
from bayplan.install.names import EXTENDER_PORT, KUBE_SCHEDULER_PORT, OPS_PORT, SCHEDULER_OPS_PORT
from bayplan.install.shapes import SERVICE, SIDECAR, STANDALONE
from bayplan.install.tree import Block, Given, Known, Number, Spread, Tree, Value, When
from bayplan.install.versions import UNHEALTHY_POD_EVICTION

_OPS = When(STANDALONE, SCHEDULER_OPS_PORT, OPS_PORT)
_HIGHEST_PRIORITY = 1_000_000_000

EXTENDER_SERVICE: Tree = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": metadata(annotations=When(Given("service.annotations"), Block("service.annotations"))),
    "spec": {
        "type": Value("service.type"),
        "clusterIP": When(Given("service.clusterIP"), Value("service.clusterIP")),
        "selector": SELECTOR,
        "ports": [
            {"name": "extender", "port": Value("service.port"), "targetPort": "extender", "protocol": "TCP"}
        ],
    },
}

OPS_SERVICE: Tree = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": metadata("ops"),
    "spec": {
        "clusterIP": "None",
        # Metrics of a pod that waits for a Lease are metrics, too.
        "publishNotReadyAddresses": True,
        "selector": SELECTOR,
        # By number: before 1.32, Services do not find the names of ports of containers that start first.
        "ports": [{"name": "ops", "port": _OPS, "targetPort": _OPS, "protocol": "TCP"}],
    },
}
"""Health and metrics, of each pod by itself."""

NETWORK_POLICY: Tree = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": metadata(),
    "spec": {
        "podSelector": {"matchLabels": SELECTOR},
        "policyTypes": ["Ingress"],
        "ingress": [
            # kube-scheduler is on the host's network, which no selector knows; certificates tell who calls.
            When(SERVICE, {"ports": [{"protocol": "TCP", "port": EXTENDER_PORT}]}),
            # Through the API server's proxy, too, which is on the host's network; a token tells who may look.
            When(Known("pagePort"), {"ports": [{"protocol": "TCP", "port": Number("pagePort")}]}),
            {
                "ports": [
                    {"protocol": "TCP", "port": _OPS},
                    When(SIDECAR, {"protocol": "TCP", "port": KUBE_SCHEDULER_PORT}),
                ],
                "from": When(Given("networkPolicy.opsFrom"), Block("networkPolicy.opsFrom")),
            },
        ],
    },
}

DISRUPTION_BUDGET: Tree = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": metadata(),
    "spec": {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": When(UNHEALTHY_POD_EVICTION, "AlwaysAllow"),
        "selector": {"matchLabels": SELECTOR},
    },
}

PRIORITY_CLASS: Tree = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": cluster_name(), "labels": LABELS},
    "value": _HIGHEST_PRIORITY,
    "description": "Pods of Bayplan: others cannot be placed without them.",
}

SERVICE_MONITOR: Tree = {
    "apiVersion": "monitoring.coreos.com/v1",
    "kind": "ServiceMonitor",
    "metadata": metadata(labels={**LABELS.tree, Spread("serviceMonitor.labels"): None}),
    "spec": {
        "selector": {"matchLabels": SELECTOR},
        "namespaceSelector": {"matchNames": [metadata()["namespace"]]},
        "endpoints": [{"port": "ops", "path": "/metrics", "interval": Value("serviceMonitor.interval")}],
    },
}
