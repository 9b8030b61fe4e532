"""HTTPS with certificates on both sides: who is let in, and what happens when files are replaced."""

from __future__ import annotations

import http.client
import json
import shutil
import ssl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from cryptography import x509

from tests.controlplane.certs import Authority, KeyPair, make_ca
from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.extender import Extender

pytestmark = pytest.mark.e2e

ONLY_SMALL = """
    import bayplan

    @bayplan.filter
    def small(pod, node):
        return None if node.name == "small" else "too large"
"""

CALLER = "system:kube-scheduler"


class Site:
    """The authorities, the files that a server reads, and the server."""

    def __init__(self, cluster: ControlPlane, directory: Path) -> None:
        self.servers = make_ca("servers", directory / "servers")
        self.callers = make_ca("callers", directory / "callers")
        self.others = make_ca("others", directory / "others")
        self.files = directory / "served"
        self.files.mkdir()
        self.install(self.server_certificate("first"), self.callers)
        tls = {
            "certFile": str(self.files / "tls.crt"),
            "keyFile": str(self.files / "tls.key"),
            "clientCAFile": str(self.files / "ca.crt"),
            "requireClientCert": True,
            "allowedNames": [CALLER],
            "reload": "200ms",
        }
        self.bayplan = Extender(
            cluster.api,
            directory,
            ONLY_SMALL,
            kubeconfig=cluster.kubeconfig,
            config={"extender": {"tls": tls}},
        )

    def server_certificate(self, name: str) -> KeyPair:
        return self.servers.issue(name, ips=["127.0.0.1"], server=True)

    def install(self, server: KeyPair, callers: Authority) -> None:
        """Put files where the server reads them, as an administrator would."""
        shutil.copy(server.cert, self.files / "tls.crt")
        shutil.copy(server.key, self.files / "tls.key")
        shutil.copy(callers.cert, self.files / "ca.crt")

    def connect(self, client: KeyPair) -> http.client.HTTPSConnection:
        """A new connection, its handshake done."""
        context = ssl.create_default_context(cafile=str(self.servers.cert))
        context.load_cert_chain(client.cert, client.key)
        connection = http.client.HTTPSConnection("127.0.0.1", self.bayplan.port, timeout=10, context=context)
        connection.connect()
        return connection

    def is_let_in(self, client: KeyPair) -> bool:
        """Whether a new connection is answered."""
        try:
            with closing(self.connect(client)) as connection:
                return ask(connection) == 200
        except OSError:
            return False


def ask(connection: http.client.HTTPSConnection) -> int:
    """The status of an answer to a filter request for no node."""
    body = {"Pod": {"metadata": {"name": "p", "namespace": "default"}}, "NodeNames": []}
    connection.request("POST", "/filter", body=json.dumps(body).encode())
    response = connection.getresponse()
    response.read()
    return response.status


def served_name(connection: http.client.HTTPSConnection) -> str:
    """The common name of the server's certificate."""
    assert isinstance(connection.sock, ssl.SSLSocket)
    shown = connection.sock.getpeercert(binary_form=True)
    assert shown
    subject = x509.load_der_x509_certificate(shown).subject
    return str(subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)[0].value)


@pytest.fixture
def site(cluster: ControlPlane, tmp_path: Path) -> Iterator[Site]:
    """A running server that wants certificates of ``callers``, on a cluster of two nodes."""
    cluster.api.create_node("large", cpu="64")
    cluster.api.create_node("small")
    made = Site(cluster, tmp_path)
    with made.bayplan:
        yield made


def test_the_right_certificate_is_let_in(cluster: ControlPlane, site: Site) -> None:
    client = site.callers.issue(CALLER, client=True)

    with cluster.scheduler(extenders=[site.bayplan.entry(server_ca=site.servers, client=client)]):
        cluster.api.create_pod("p")

        assert cluster.api.wait_bound("p") == "small"
        assert site.bayplan.requests("filter", result="ok") == 1


def test_a_certificate_of_another_authority_is_refused(cluster: ControlPlane, site: Site) -> None:
    stranger = site.others.issue(CALLER, client=True)

    with cluster.scheduler(extenders=[site.bayplan.entry(server_ca=site.servers, client=stranger)]):
        cluster.api.create_pod("p")

        said = cluster.api.wait_unschedulable("p", reason="SchedulerError")
        assert "tls: unknown certificate authority" in said
        assert cluster.api.node_of("p") is None
    assert "the TLS handshake with a caller failed" in site.bayplan.log()
    assert "certificate verify failed" in site.bayplan.log()
    assert site.bayplan.ops("/readyz") == (200, "ok")
    assert site.bayplan.requests("filter") == 0
    assert site.is_let_in(site.callers.issue(CALLER, client=True))


def test_a_name_that_is_not_allowed_is_refused(cluster: ControlPlane, site: Site) -> None:
    wrong = site.callers.issue("somebody-else", client=True)

    with cluster.scheduler(extenders=[site.bayplan.entry(server_ca=site.servers, client=wrong)]):
        cluster.api.create_pod("p")

        said = cluster.api.wait_unschedulable("p", reason="SchedulerError")
        assert said.endswith("code 403")
        assert cluster.api.node_of("p") is None
    said = "filter: the caller's certificate has somebody-else, which allowedNames does not list"
    assert said in site.bayplan.log()
    refused = site.bayplan.requests("filter", result="forbidden")
    assert refused > 0
    assert site.bayplan.requests("filter") == refused, "no request was answered"


def test_replaced_files_are_used_for_new_connections(cluster: ControlPlane, site: Site) -> None:
    old = site.callers.issue(CALLER, client=True)
    new = site.others.issue(CALLER, client=True)
    assert site.is_let_in(old)
    assert not site.is_let_in(new)

    with closing(site.connect(old)) as open_before:
        assert served_name(open_before) == "first"
        site.install(site.server_certificate("second"), site.others)
        wait_until(lambda: site.is_let_in(new), 30, what="the new authority's callers are let in")

        assert not site.is_let_in(old)
        assert ask(open_before) == 200
        with closing(site.connect(new)) as opened_after:
            assert served_name(opened_after) == "second"

    with cluster.scheduler(extenders=[site.bayplan.entry(server_ca=site.servers, client=new)]):
        cluster.api.create_pod("p")
        assert cluster.api.wait_bound("p") == "small"


def test_a_broken_replacement_leaves_the_old_files_in_use(cluster: ControlPlane, site: Site) -> None:
    client = site.callers.issue(CALLER, client=True)
    (site.files / "tls.crt").write_text("half a certificate")
    wait_until(
        lambda: "keeping the old ones" in site.bayplan.log(), 30, what="the server has seen the broken file"
    )

    with cluster.scheduler(extenders=[site.bayplan.entry(server_ca=site.servers, client=client)]):
        cluster.api.create_pod("p")
        assert cluster.api.wait_bound("p") == "small"
