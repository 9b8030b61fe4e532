"""The test authority issues what TLS with client certificates needs."""

from __future__ import annotations

import ssl
import stat
from pathlib import Path

import pytest

from tests.controlplane.certs import Authority, KeyPair, make_ca


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return make_ca("test-ca", tmp_path)


def handshake(
    ca: Authority, server: KeyPair, *, client: KeyPair | None, host: str = "127.0.0.1"
) -> ssl.SSLObject:
    """Shake hands in memory, both sides verifying; the server's side, which sees the client."""
    ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(ca.cert))
    ours.load_cert_chain(server.cert, server.key)
    ours.verify_mode = ssl.CERT_REQUIRED
    # In TLS 1.3 the client is done before the server has looked at its certificate.
    ours.maximum_version = ssl.TLSVersion.TLSv1_2
    theirs = ssl.create_default_context(cafile=str(ca.cert))
    theirs.verify_flags |= ssl.VERIFY_X509_STRICT
    if client is not None:
        theirs.load_cert_chain(client.cert, client.key)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    server_side = ours.wrap_bio(up, down, server_side=True)
    client_side = theirs.wrap_bio(down, up, server_hostname=host)
    unfinished = [client_side, server_side]
    while unfinished:
        for side in list(unfinished):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            unfinished.remove(side)
    return server_side


def test_both_sides_trust_each_other(ca: Authority) -> None:
    server = ca.issue("bayplan", ips=["127.0.0.1"], dns=["localhost"], server=True)
    client = ca.issue("system:kube-scheduler", organizations=["schedulers"], client=True)

    peer = handshake(ca, server, client=client).getpeercert()

    assert peer is not None
    assert peer["subject"] == (
        (("organizationName", "schedulers"),),
        (("commonName", "system:kube-scheduler"),),
    )


@pytest.mark.parametrize(
    ("days", "client", "says"),
    [
        pytest.param(-1, True, "expired", id="an expired certificate"),
        pytest.param(1, False, "unsuitable certificate purpose", id="one for servers only"),
    ],
)
def test_a_client_is_refused_with(ca: Authority, days: float, client: bool, says: str) -> None:
    server = ca.issue("server", ips=["127.0.0.1"], server=True)
    other = ca.issue("client", client=client, server=not client, days=days)

    with pytest.raises(ssl.SSLError, match=says):
        handshake(ca, server, client=other)


def test_a_client_without_a_certificate_is_refused(ca: Authority) -> None:
    server = ca.issue("server", ips=["127.0.0.1"], server=True)

    with pytest.raises(ssl.SSLError, match="peer did not return a certificate"):
        handshake(ca, server, client=None)


def test_a_client_of_another_authority_is_refused(ca: Authority, tmp_path: Path) -> None:
    server = ca.issue("server", ips=["127.0.0.1"], server=True)
    stranger = make_ca("other-ca", tmp_path / "other").issue("client", client=True)

    with pytest.raises(ssl.SSLError, match="certificate verify failed"):
        handshake(ca, server, client=stranger)


def test_a_server_of_another_name_is_refused(ca: Authority) -> None:
    server = ca.issue("server", ips=["127.0.0.1"], server=True)

    with pytest.raises(ssl.SSLError, match="Hostname mismatch"):
        handshake(ca, server, client=ca.issue("client", client=True), host="elsewhere")


def test_private_keys_are_private(ca: Authority) -> None:
    assert stat.S_IMODE(ca.issue("server", server=True).key.stat().st_mode) == 0o600
