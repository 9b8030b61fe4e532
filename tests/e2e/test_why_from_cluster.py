"""``bayplan why --from-cluster``: servers are found by their labels, and asked through the API server."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.ports import free_port
from tests.e2e.asking import DISKS_AND_REGIONS, in_why, refused, why
from tests.e2e.extender import Extender

pytestmark = pytest.mark.e2e


def test_servers_are_found_and_asked_through_the_api_server(cluster: ControlPlane, tmp_path: Path) -> None:
    address = own_address()
    if address is None:
        pytest.skip("the API server proxies to no loopback address, and this machine has no other")
    (tmp_path / "token").write_text("secret")
    cluster.api.create_node("bare")
    port = free_port()
    bayplan = Extender(
        cluster.api,
        tmp_path,
        DISKS_AND_REGIONS,
        kubeconfig=cluster.kubeconfig,
        config={"page": {"tokenFile": str(tmp_path / "token")}},
        flags=[f"--page-listen={address}:{port}"],
    )
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["pods/proxy"], "verbs": ["get"]},
    ]
    flags = (
        "--from-cluster",
        f"--kubeconfig={cluster.kubeconfig_for('reader', rules)}",
        f"--port={port}",
    )

    with bayplan, cluster.scheduler(extenders=[bayplan.entry()]):
        cluster.api.create_pod("p")
        cluster.api.wait_event("p", "FailedScheduling")
        labels = {"app.kubernetes.io/name": "bayplan"}
        cluster.api.create_pod("bayplan-0", labels=labels, node_name="bare")
        status = {"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}}
        cluster.api.patch("pods", "bayplan-0", status, subresource="status")

        token = f"--token-file={tmp_path / 'token'}"
        said = why("p", flags=(*flags, token))
        assert (said["server"], in_why(said)) == ("pod default/bayplan-0", {"no ssd": 1})

        assert "it wants a token: give --token-file" in refused("p", *flags)
        assert "pod default/bayplan-0: knows nothing about the pod" in refused("q", *flags, token)
        assert "no pod with app=none runs in the cluster" in refused("p", *flags, "--selector=app=none")
        weak = f"--kubeconfig={cluster.kubeconfig_for('weak', rules[:1])}"
        said_no = refused("p", "--from-cluster", weak, token)
        assert "status 403" in said_no
        assert "the right to `get` `pods/proxy`" in said_no


def own_address() -> str | None:
    """The address that others reach this machine at."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Nothing is sent: connecting a datagram socket only chooses the way.
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        address = str(probe.getsockname()[0])
    return None if address.startswith("127.") else address
