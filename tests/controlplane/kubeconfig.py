"""Kubeconfig files with everything inside, as a user would have them.

They are written as JSON, which is YAML.
"""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

from tests.controlplane.certs import KeyPair


def write_kubeconfig(
    path: Path,
    server: str,
    *,
    ca: Path,
    user: str,
    token: str | None = None,
    certificate: KeyPair | None = None,
) -> Path:
    """Write a kubeconfig with one context; the user has a token or a client certificate."""
    credentials: dict[str, str] = {}
    if token is not None:
        credentials["token"] = token
    if certificate is not None:
        credentials["client-certificate-data"] = _data(certificate.cert)
        credentials["client-key-data"] = _data(certificate.key)
    cluster = {"server": server, "certificate-authority-data": _data(ca)}
    context = {"cluster": "test", "user": user}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": "test", "context": context}],
        "current-context": "test",
    }
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(document, file, indent=2)
    return path


def _data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
