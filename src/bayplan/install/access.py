"""The account, its roles and their bindings."""

from bayplan.install.labels import LABELS, cluster_name, metadata, suffixed
from bayplan.install.rights import rules
from bayplan.install.tree import Block, Given, Named, Tree, When

_GROUP = "rbac.authorization.k8s.io"
_SUBJECTS: Tree = [
    {"kind": "ServiceAccount", "name": Named("serviceAccountName"), "namespace": Named("namespace")}
]

SERVICE_ACCOUNT: Tree = {
    "apiVersion": "v1",
    "kind": "ServiceAccount",
    "metadata": {
        "name": Named("serviceAccountName"),
        "namespace": Named("namespace"),
        "labels": LABELS,
        "annotations": When(Given("serviceAccount.annotations"), Block("serviceAccount.annotations")),
    },
}

CLUSTER_ROLE: Tree = {
    "apiVersion": f"{_GROUP}/v1",
    "kind": "ClusterRole",
    "metadata": {"name": cluster_name(), "labels": LABELS},
    "rules": rules(own=False),
}

# In the namespace of the Lease, which may differ from ours.
_BESIDE_THE_LEASE: Tree = {**metadata(), "namespace": Named("leaseNamespace")}
ROLE: Tree = {
    "apiVersion": f"{_GROUP}/v1",
    "kind": "Role",
    "metadata": _BESIDE_THE_LEASE,
    "rules": rules(own=True),
}


def _binding(name: Tree, role_kind: str, role: Tree) -> Tree:
    """Our account with a role: in the whole cluster where the name has no namespace."""
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "RoleBinding" if "namespace" in name else "ClusterRoleBinding",
        "metadata": name,
        "roleRef": {"apiGroup": _GROUP, "kind": role_kind, "name": role},
        "subjects": _SUBJECTS,
    }


def _everywhere(suffix: str = "") -> Tree:
    return {"name": cluster_name(suffix), "labels": LABELS}


CLUSTER_ROLE_BINDING: Tree = _binding(_everywhere(), "ClusterRole", cluster_name())
ROLE_BINDING: Tree = _binding(_BESIDE_THE_LEASE, "Role", suffixed(""))

# What Kubernetes brings along for a kube-scheduler.
SCHEDULER_BINDING: Tree = _binding(_everywhere("kube-scheduler"), "ClusterRole", "system:kube-scheduler")
VOLUME_BINDING: Tree = _binding(_everywhere("volume-scheduler"), "ClusterRole", "system:volume-scheduler")
AUTHENTICATION_BINDING: Tree = _binding(
    {"name": cluster_name("authentication-reader"), "namespace": "kube-system", "labels": LABELS},
    "Role",
    "extension-apiserver-authentication-reader",
)
