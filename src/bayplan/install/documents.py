"""All objects of an installation in the order in which they are applied, each with its condition."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bayplan.install import access, cert_manager, configuration, network, workload
from bayplan.install.evaluate import evaluate, holds
from bayplan.install.extender_entry import SCHEDULER_CONFIGURATION
from bayplan.install.names import Release
from bayplan.install.rights import LEASE_IS_USED
from bayplan.install.shapes import (
    ATTACHED,
    CONTROL_PLANE,
    LEASED,
    OWN_PRIORITY,
    SERVICE,
    SEVERAL,
    SIDECAR,
    STANDALONE,
)
from bayplan.install.tree import All, Condition, Given, Is, Named, Not, Tree, When


@dataclass(frozen=True)
class Document:
    """One object, when it is part of an installation, and the file of the chart that it is in."""

    template: str
    tree: Tree
    when: Condition


# Only the widest standard lets pods onto the host's network.
_POD_SECURITY = When(CONTROL_PLANE, "privileged", "restricted")
NAMESPACE: Tree = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {
        "name": Named("namespace"),
        "labels": {
            "pod-security.kubernetes.io/enforce": _POD_SECURITY,
            "pod-security.kubernetes.io/warn": _POD_SECURITY,
        },
    },
}

_RBAC = Given("rbac.create")
_CERT_MANAGER = All(ATTACHED, Is("tls.mode", "cert-manager"))
_REACHED = Not(CONTROL_PLANE)

DOCUMENTS: tuple[Document, ...] = (
    Document("namespace.yaml", NAMESPACE, Given("createNamespace")),
    Document("priorityclass.yaml", network.PRIORITY_CLASS, OWN_PRIORITY),
    Document("serviceaccount.yaml", access.SERVICE_ACCOUNT, Given("serviceAccount.create")),
    Document("rbac.yaml", access.CLUSTER_ROLE, _RBAC),
    Document("rbac.yaml", access.CLUSTER_ROLE_BINDING, _RBAC),
    Document("rbac.yaml", access.ROLE, All(_RBAC, LEASE_IS_USED)),
    Document("rbac.yaml", access.ROLE_BINDING, All(_RBAC, LEASE_IS_USED)),
    Document("rbac.yaml", access.SCHEDULER_BINDING, All(_RBAC, SIDECAR)),
    Document("rbac.yaml", access.VOLUME_BINDING, All(_RBAC, SIDECAR)),
    Document("rbac.yaml", access.AUTHENTICATION_BINDING, All(_RBAC, SIDECAR)),
    Document("configmap.yaml", configuration.CONFIG_MAP, All()),
    Document("configmap.yaml", configuration.SCHEDULER_CONFIG_MAP, Not(STANDALONE)),
    Document("certificates.yaml", cert_manager.SELF_SIGNED, _CERT_MANAGER),
    Document("certificates.yaml", cert_manager.AUTHORITY, _CERT_MANAGER),
    Document("certificates.yaml", cert_manager.ISSUER, _CERT_MANAGER),
    Document("certificates.yaml", cert_manager.SERVER, _CERT_MANAGER),
    Document("certificates.yaml", cert_manager.CLIENT, _CERT_MANAGER),
    Document("service.yaml", network.EXTENDER_SERVICE, SERVICE),
    Document("service.yaml", network.OPS_SERVICE, _REACHED),
    Document("networkpolicy.yaml", network.NETWORK_POLICY, All(_REACHED, Given("networkPolicy.enabled"))),
    # Where one pod alone is ready, a budget would keep its node from ever being drained.
    Document(
        "poddisruptionbudget.yaml",
        network.DISRUPTION_BUDGET,
        All(SEVERAL, Not(LEASED), Given("podDisruptionBudget.enabled")),
    ),
    Document("workload.yaml", workload.WORKLOAD, All()),
    Document("servicemonitor.yaml", network.SERVICE_MONITOR, All(_REACHED, Given("serviceMonitor.enabled"))),
)


def objects(release: Release) -> Iterator[dict[str, Any]]:
    """The objects of this installation."""
    for document in DOCUMENTS:
        if holds(document.when, release):
            yield evaluate(document.tree, release)


def scheduler_configuration(release: Release) -> dict[str, Any]:
    """The configuration of kube-scheduler, as a file of its own."""
    found: dict[str, Any] = evaluate(SCHEDULER_CONFIGURATION, release)
    return found
