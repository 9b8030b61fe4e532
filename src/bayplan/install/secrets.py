"""The Secrets that certificates are in: one for our pods, one for kube-scheduler."""

import base64
from collections.abc import Mapping
from typing import Any


def tls_secret(name: str, namespace: str, data: Mapping[str, bytes]) -> dict[str, Any]:
    """A Secret of the type that Kubernetes has for certificates, with the CA beside them."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/name": "bayplan"},
        },
        "type": "kubernetes.io/tls",
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }
